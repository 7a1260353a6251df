"""Ends an answer with its line, where something already stands behind the cursor."""


class SingleLine:
    """A text filter (sampling/reader.py)."""

    rule = "single_line"

    def __init__(self) -> None:
        self.stopped = False

    def push(self, text: str) -> str:
        line, newline, _ = text.partition("\n")
        self.stopped = bool(newline)
        return line.removesuffix("\r") if newline else line

    def finish(self) -> str:
        return ""
