"""Stop strings, found while text streams by in pieces of any size."""

from collections.abc import Sequence


class StopStrings:
    """Lets text through until one of the strings is complete in it; neither that string nor anything behind it.

    Text that may be the beginning of a stop string is held back until the next character decides. The stop is the
    first *completed* string, so cutting the text into other pieces changes nothing; of several completed by the
    same character the longest counts.
    """

    rule = "stop"

    def __init__(self, strings: Sequence[str]) -> None:
        self._followers = [_Follower(string) for string in strings]
        self._beginnings = frozenset(string[0] for string in strings)
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The text that is now known to be before any stop string. Not to be called once `stopped`."""
        if not self._held and self._beginnings.isdisjoint(text):
            return text
        text = self._held + text
        for end in range(len(self._held), len(text)):
            for follower in self._followers:
                follower.advance(text[end])
            matched = [follower.num_matched for follower in self._followers if follower.complete]
            if matched:
                self.stopped = True
                self._held = ""
                return text[: end + 1 - max(matched)]
        num_safe = len(text) - max(follower.num_matched for follower in self._followers)
        self._held = text[num_safe:]
        return text[:num_safe]

    def finish(self) -> str:
        """What was held back: the text ended and no stop string was completed."""
        held, self._held = self._held, ""
        return held


class _Follower:
    """How much of one string the text behind us ends with (Knuth-Morris-Pratt): O(1) per character on average."""

    def __init__(self, string: str) -> None:
        self._string = string
        self.num_matched = 0
        # _borders[n]: the longest proper prefix of string[:n] that is also its suffix
        self._borders = [0, 0]
        border = 0
        for character in string[1:]:
            while border and character != string[border]:
                border = self._borders[border]
            border += character == string[border]
            self._borders.append(border)

    @property
    def complete(self) -> bool:
        return self.num_matched == len(self._string)

    def advance(self, character: str) -> None:
        """Read one character. Not to be called once complete."""
        matched = self.num_matched
        while matched and character != self._string[matched]:
            matched = self._borders[matched]
        self.num_matched = matched + (character == self._string[matched])
