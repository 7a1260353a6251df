"""Ends an answer with its line, where something already stands behind the cursor."""


class SingleLine:
    """A text filter (sampling/reader.py). A carriage return may belong to the line end: it is held back."""

    rule = "single_line"

    def __init__(self) -> None:
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        line, newline, _ = (self._held + text).partition("\n")
        self.stopped = bool(newline)
        shown = line.removesuffix("\r")
        self._held = line[len(shown) :]
        return shown

    def finish(self) -> str:
        return self._held
