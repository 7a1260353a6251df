"""A text and its tokens; the next one, which hardly differs, costs only what differs.

Tokens do not reach across certain places (Tokenizer.last_cut). Of the text before, everything up to the last such place
ahead of the first difference is kept.

    before   fn main() {⏎    let x = so█
    now      fn main() {⏎    let x = some█
                             kept ─┤└──── encoded
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from halfline.errors import UnencodableText
from halfline.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class EncodedText:
    """`token_ids[i]` stands for the bytes of `text` up to `ends[i]`, counted with those that encoding put in front.

    Arrays, since a few hundred of these are remembered: eight bytes for a token.
    """

    text: str
    token_ids: "array[int]"
    ends: "array[int]"

    def __len__(self) -> int:
        return len(self.token_ids)


class TextEncoder:
    """Encodes texts that continue others, or not: `continues` as in `Tokenizer.encode`, and never with BOS."""

    def __init__(self, tokenizer: Tokenizer, *, continues: bool) -> None:
        self._tokenizer = tokenizer
        self._continues = continues

    def encode(self, text: str) -> EncodedText:
        """Raises UnencodableText."""
        token_ids = self._tokenizer.encode(text, add_bos=False, continues=self._continues)
        return EncodedText(text, _array(token_ids), self._ends(token_ids, 0))

    def change(self, known: EncodedText, text: str) -> EncodedText:
        """The same as `encode(text)`. Raises UnencodableText."""
        if text == known.text:
            return known
        num_kept, start = self._kept(known, text)
        if num_kept == 0:
            return self.encode(text)
        added = self._tokenizer.encode(text[start:], continues=True)
        return EncodedText(
            text,
            known.token_ids[:num_kept] + _array(added),
            known.ends[:num_kept] + self._ends(added, known.ends[num_kept - 1]),
        )

    def start_of(self, encoded: EncodedText, position: int) -> int | None:
        """The character at which a token begins; None: within one, or the token spells what the text does not have."""
        data, num_in_front = encoded.text.encode(), self._num_in_front(encoded)
        if position == 0 or num_in_front is None:
            return None if position else 0
        end = encoded.ends[position - 1] - num_in_front
        within = end < len(data) and data[end] & 0xC0 == 0x80
        return None if within else len(data[:end].decode())

    def _kept(self, known: EncodedText, text: str) -> tuple[int, int]:
        """How many tokens stay as they are, and the character behind them; (0, 0): none are known to."""
        cut = self._tokenizer.last_cut(text, common_length(known.text, text))
        num_in_front = self._num_in_front(known)
        if not cut or num_in_front is None:
            return 0, 0
        end = len(text[:cut].encode()) + num_in_front
        position = bisect_left(known.ends, end)
        if position == len(known.ends) or known.ends[position] != end:
            return 0, 0
        return position + 1, cut

    def _num_in_front(self, encoded: EncodedText) -> int | None:
        """Bytes that its tokens spell before the text begins; None: not each of its bytes has a token."""
        num_more = (encoded.ends[-1] if encoded.ends else 0) - len(encoded.text.encode())
        may_lead = self._tokenizer.space_prefix and not self._continues
        return num_more if num_more == 0 or (num_more == 1 and may_lead) else None

    def _ends(self, token_ids: Sequence[int], start: int) -> "array[int]":
        spelt = self._tokenizer.token_bytes
        lengths = (len(spelt(token_id)) for token_id in token_ids)
        return _array(accumulate(lengths, initial=start))[1:]


def check_encodable(text: str, offset: int) -> None:
    """Raise UnencodableText for a lone surrogate; `offset` is where `text` begins in the document."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnencodableText(offset + error.start) from None


def _array(values: Iterable[int]) -> "array[int]":
    return array("i", values)


def common_length(a: str, b: str) -> int:
    """Of the beginning that both share, by halving: comparing slices is far faster than comparing characters."""
    low, high = 0, min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
