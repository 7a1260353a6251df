"""Text into token ids and back, for one vocabulary.

Knows what a special token is and that a user's text never is one. How a kind of vocabulary encodes is
`encoder`'s matter, which special token means what is `infill`'s.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from hashlib import blake2b

from halfline.errors import PromptTooLong, UnencodableText
from halfline.text.encoder import build_encoder
from halfline.text.vocab import VocabSpec


class Tokenizer:
    """Equal to llama.cpp's, token for token (bench/peers/tokenizer_parity.py). Safe to share among threads.

    Building one takes about 0.1 s for 50,000 tokens. Raises UnsupportedModel for a pre-tokenizer we lack
    and DamagedModel for a vocabulary that contradicts itself.
    """

    def __init__(self, vocab: VocabSpec) -> None:
        encoder = build_encoder(vocab)
        self._encoder = encoder
        self.adds_bos = vocab.add_bos
        self.bos_id = vocab.bos_id
        self.eos_ids = frozenset(vocab.eos_ids)
        # llama.cpp looks for the longest first (in bytes) and for each of them in the whole text.
        self._user_defined = sorted(
            encoder.user_defined.items(), key=lambda item: (-len(item[0].encode()), item[1])
        )
        self._special_ids = {encoder.texts[i]: i for i in encoder.control_ids if i < len(encoder.texts)}
        self._special_ids |= encoder.user_defined
        self._spelt_out = encoder.control_ids | set(encoder.user_defined.values())
        self._bytes: list[bytes | None] = [None] * self.vocab_size
        self._texts: list[str | None] = [None] * self.vocab_size

    @property
    def vocab_size(self) -> int:
        return len(self._encoder.texts)

    @property
    def space_prefix(self) -> bool:
        """Whether a text is encoded with a space in front, which decoding it takes away again."""
        return self._encoder.space_prefix

    def encode(self, text: str, *, add_bos: bool | None = None, continues: bool = False) -> list[int]:
        """Token ids of a text, in which nothing is ever read as a control token.

        `add_bos` None does as the vocabulary says; one without BOS adds none. A text that `continues` other
        tokens gets neither BOS (unless asked for) nor the space SentencePiece puts in front of a text.
        Time is linear, also for one endless line: 2.5 MB/s for Python sources, 0.5 MB/s for only digits.
        Raises UnencodableText for a lone surrogate, BadRequest for 4 million characters without a word's end.
        """
        _check_encodable(text)
        wants_bos = self.adds_bos and not continues if add_bos is None else add_bos
        token_ids = [self.bos_id] if wants_bos and self.bos_id is not None else []
        starts = not continues
        for part in self._parts(text):
            if isinstance(part, int):
                token_ids.append(part)
                starts = True
            else:
                token_ids += self._encoder.encode(self._encoder.start(part) if starts else part)
                starts = False
        return token_ids

    def fewest_tokens(self, text: str) -> int:
        """How many tokens the text has at least; costs nothing, however long it is."""
        return -(-len(text) // self._longest_token)

    def check_may_fit(self, text: str, max_tokens: int, field: str = "prompt") -> None:
        """Raises PromptTooLong for what is sure to have more tokens, before it is encoded; other texts may, too."""
        fewest = self.fewest_tokens(text)
        if fewest > max_tokens:
            raise PromptTooLong(fewest, 0, max_tokens, counted=False, field=field)

    @cached_property
    def _longest_token(self) -> int:
        """Characters of the vocabulary's longest token."""
        return max(len(self.token_text(token_id)) for token_id in range(self.vocab_size))

    def decode(self, token_ids: Iterable[int], *, continues: bool = False) -> str:
        """The text of tokens, without special ones; bytes that are no UTF-8 become U+FFFD."""
        joined = b"".join(self.token_bytes(i) for i in token_ids if not self.is_special(i))
        if self.space_prefix and not continues:
            joined = joined.removeprefix(b" ")
        return joined.decode(errors="replace")

    @cached_property
    def digest(self) -> str:
        """Of all that decides how a text is encoded: two tokenizers with the same one encode alike. Takes 60 ms."""
        encoder = self._encoder
        parts = (
            encoder.engine.to_str(),
            repr(sorted(encoder.control_ids)),
            repr(sorted(encoder.user_defined.items())),
            repr(
                (
                    encoder.has_gaps,
                    encoder.metaspace,
                    encoder.spaces_escaped,
                    encoder.space_prefix,
                    len(encoder.texts),
                )
            ),
        )
        return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    @property
    def special_tokens(self) -> Mapping[str, int]:
        """Control and user defined tokens, by their text."""
        return self._special_ids

    def last_cut(self, text: str, stop: int) -> int | None:
        """The last place where the text falls into two that have its tokens together, the second encoded as one that
        `continues`, as far as its first `stop` characters show. None: the text has to be encoded whole.
        """
        if any(token in text for token, _ in self._user_defined):
            return None
        return self._encoder.last_cut(text, stop)

    def last_sure_cut(self, text: str) -> int:
        """The last place where the text falls into two that have its tokens together, whatever comes behind it: as
        `last_cut`, and no user defined token may reach across. 0: nowhere.
        """
        cut = self.last_cut(text, len(text)) or 0
        return 0 if any(_may_cross(token, text[:cut], text[cut:]) for token, _ in self._user_defined) else cut

    def last_word(self, text: str) -> int:
        """Where the word begins that a short text ends with, as the vocabulary cuts text into words before it merges
        characters. No token reaches across. The text's length where a vocabulary has no words.
        """
        return self._encoder.last_word(text)

    def token_id(self, text: str) -> int | None:
        """The control or user defined token of exactly this text; None if there is no such token."""
        return self._special_ids.get(text)

    def is_special(self, token_id: int) -> bool:
        """Whether the token is a control token: never part of a text."""
        return token_id in self._encoder.control_ids

    def token_bytes(self, token_id: int) -> bytes:
        """What the token stands for, often less than a character.

        Special tokens give their name. Ids behind the vocabulary are empty: embeddings are padded.
        """
        if not 0 <= token_id < self.vocab_size:
            return b""
        found = self._bytes[token_id]
        if found is None:
            text = self._encoder.texts[token_id]
            found = text.encode() if token_id in self._spelt_out else self._encoder.spelling(text)
            self._bytes[token_id] = found
        return found

    def token_text(self, token_id: int) -> str:
        """`token_bytes` as text, U+FFFD for parts of characters: a table look-up from the second time on."""
        if not 0 <= token_id < self.vocab_size:
            return ""
        found = self._texts[token_id]
        if found is None:
            found = self._texts[token_id] = self.token_bytes(token_id).decode(errors="replace")
        return found

    def _parts(self, text: str) -> Iterator[str | int]:
        """The text cut at user defined tokens, which stand as their ids."""
        parts: list[str | int] = [text]
        for token, token_id in self._user_defined:
            if token in text:
                parts = [piece for part in parts for piece in _cut_at(part, token, token_id)]
        return (part for part in parts if part != "")


def _cut_at(part: str | int, token: str, token_id: int) -> Iterator[str | int]:
    if isinstance(part, int):
        yield part
        return
    first, *others = part.split(token)
    yield first
    for other in others:
        yield token_id
        yield other


def _may_cross(token: str, before: str, behind: str) -> bool:
    """Whether `before` may end, and `behind` and what follows it begin, within the token."""
    return any(
        before.endswith(token[:place])
        and (behind.startswith(token[place:]) or token[place:].startswith(behind))
        for place in range(1, len(token))
    )


def _check_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnencodableText(error.start) from None
