"""Texts in which the vocabulary's special tokens are spelt out, as chat templates and some servers' prompts have them.

Everywhere else a text is only text (`Tokenizer.encode`). Whoever calls this has to keep a user's words from spelling a
marker: `Disguise` does it, and takes nothing away from them.
"""

import re
from collections.abc import Iterable

from halfline.text.tokenizer import Tokenizer

# Unicode's noncharacters of plane 0, meant for a program's own use and never for interchange.
_NONCHARACTERS = [chr(code) for code in (*range(0xFDD0, 0xFDF0), 0xFFFE, 0xFFFF)]


class MarkedText:
    """Encodes marked texts for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # The longest first: one marker may begin another.
        names = sorted(tokenizer.special_tokens, key=lambda name: (-len(name), name))
        self._markers = re.compile("|".join(map(re.escape, names)) or "(?!)")

    def encode(self, text: str, *, add_bos: bool = False, disguise: "Disguise | None" = None) -> list[int]:
        """Token ids; `disguise` is taken off what is no marker. Raises UnencodableText."""
        bos = [self._tokenizer.bos_id] if add_bos and self._tokenizer.bos_id is not None else []
        token_ids: list[int] = [*bos]
        position = 0
        for marker in self._markers.finditer(text):
            token_ids += self._plain(text[position : marker.start()], disguise)
            token_ids.append(self._tokenizer.special_tokens[marker[0]])
            position = marker.end()
        return token_ids + self._plain(text[position:], disguise)

    def last_marker_end(self, text: str) -> int:
        """Where the last marker ends that the text spells; 0 where there is none."""
        return max((marker.end() for marker in self._markers.finditer(text)), default=0)

    def first_marker_start(self, text: str) -> int:
        """Where the first marker begins that the text spells; the text's length where there is none."""
        marker = self._markers.search(text)
        return len(text) if marker is None else marker.start()

    def disguise(self, texts: Iterable[str]) -> "Disguise":
        """One for texts that will be put among markers."""
        return Disguise(self._markers, texts)

    def _plain(self, text: str, disguise: "Disguise | None") -> list[int]:
        shown = text if disguise is None else disguise.off(text)
        return self._tokenizer.encode(shown, add_bos=False) if shown else []


class Disguise:
    """Puts a character that none of the texts holds into each marker they spell, and takes it out again.

    <|im_end|>   becomes   <?|im_end|>   while the text goes through a template that may cut and strip it.
    """

    def __init__(self, markers: re.Pattern[str], texts: Iterable[str]) -> None:
        held = set().union(*texts)
        free = (character for character in _NONCHARACTERS if character not in held)
        # A text that holds all of them means no harm it could do with one less.
        self._character = next(free, _NONCHARACTERS[0])
        self._markers = markers

    def on(self, text: str) -> str:
        return self._markers.sub(lambda found: found[0][:1] + self._character + found[0][1:], text)

    def off(self, text: str) -> str:
        return text.replace(self._character, "")
