"""Text out of tokens as they are generated, never half a character.

The pieces joined are `Tokenizer.decode` of all tokens, whatever they were. Knows nothing of stop
strings: those hold text back, this holds bytes back.
"""

import codecs

from halfline.text.tokenizer import Tokenizer


class Detokenizer:
    """Turns one sequence's tokens into text, each in constant time.

    By default its tokens continue a prompt, so a leading space is theirs; otherwise they start a text.
    """

    def __init__(self, tokenizer: Tokenizer, *, continues: bool = True) -> None:
        self._tokenizer = tokenizer
        self._strip_space = tokenizer.space_prefix and not continues
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token_id: int) -> str:
        """The text that became certain with this token: empty for special ones and parts of characters."""
        if self._tokenizer.is_special(token_id):
            return ""
        data = self._tokenizer.token_bytes(token_id)
        if self._strip_space and data:
            data = data.removeprefix(b" ")
            self._strip_space = False
        return self._decoder.decode(data)

    def finish(self) -> str:
        """What is left at the end: U+FFFD for a character that never became complete."""
        return self._decoder.decode(b"", final=True)
