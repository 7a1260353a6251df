"""Takes the blanks off an answer's end, where nobody sees them. Not for answers before something else in their line."""


class TrailingBlanks:
    """A text filter (sampling/reader.py)."""

    rule = "trailing_blanks"

    def __init__(self) -> None:
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        text = self._held + text
        shown = text.rstrip()
        self._held = text[len(shown) :]
        return shown

    def finish(self) -> str:
        return ""
