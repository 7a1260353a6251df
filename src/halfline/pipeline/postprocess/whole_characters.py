"""Leaves out a character of which an answer's end holds only a part: in a file it would stand as U+FFFD."""

from halfline.sampling.reader import Detokenizer


class WholeCharacters:
    """A detokenizer (sampling/reader.py)."""

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer

    def push(self, token_id: int) -> str:
        return self._detokenizer.push(token_id)

    def finish(self) -> str:
        return ""
