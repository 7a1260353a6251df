"""Writes line ends as the document does."""


class Newlines:
    """A text rewrite (sampling/written.py): both kinds become the one."""

    def __init__(self, newline: str) -> None:
        self._newline = newline
        self._held = ""  # a carriage return whose line feed may still come

    def passes(self, text: str) -> bool:
        return not self._held and "\r" not in text and "\n" not in text

    def push(self, text: str) -> str:
        text = self._held + text
        self._held = "\r" if text.endswith("\r") else ""
        return text.removesuffix("\r").replace("\r\n", "\n").replace("\n", self._newline)

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held
