"""Ends an answer where it leaves the block that the client says the cursor is in."""


class MinIndent:
    """A text filter (sampling/reader.py): the answer ends at a new line indented by less than `num_blanks`.

    The line break and the blanks stay, as clients that ask for this expect. A tab counts as one; the cursor's own line
    and blank lines are never judged.
    """

    rule = "min_indent"

    def __init__(self, num_blanks: int) -> None:
        self._num_blanks = num_blanks
        self._num_seen: int | None = (
            None  # blanks so far of the line that begins; None: not at a line's beginning
        )
        self.stopped = False

    def push(self, text: str) -> str:
        for position, character in enumerate(text):
            if character in "\r\n":
                self._num_seen = 0
            elif self._num_seen is not None:
                if character in " \t":
                    self._num_seen += 1
                elif self._num_seen < self._num_blanks:
                    self.stopped = True
                    return text[:position]
                else:
                    self._num_seen = None
        return text

    def finish(self) -> str:
        return ""
