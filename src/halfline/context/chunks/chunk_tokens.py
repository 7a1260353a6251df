"""Tokens of chunks for one model: the registry, asked for its vocabulary."""

from collections.abc import Callable
from functools import lru_cache

from halfline.context.chunks.chunking import MAX_HEAD_TOKENS, MAX_TOKENS, chunk_by_ner_overlap
from halfline.context.chunks.registry import ChunkRegistry, Kind, Tokens
from halfline.text.tokenizer import Tokenizer

IN_MEMORY_BYTES = 16 * 2**20

_MAX_TEXTS = 256  # whose cuts are remembered


class ChunkTokens:
    """`vocabulary` names the tokenizer: two that encode differently must not share a name."""

    def __init__(self, registry: ChunkRegistry, tokenizer: Tokenizer, vocabulary: str) -> None:
        self.registry = registry
        self._tokenizer = tokenizer
        self._vocabulary = vocabulary
        self._cut: Callable[[str, str | None, int], tuple[str, ...]] = lru_cache(_MAX_TEXTS)(self._cut_now)

    def of(self, text: str, kind: Kind) -> Tokens:
        """Token ids of a chunk as one that continues what is before it. Raises UnencodableText."""
        return self.registry.tokens(text, self._vocabulary, self._encode, kind)

    def chunks(self, text: str, path: str | None) -> tuple[str, ...]:
        """The text in chunks of at most 384 tokens (chunking.py), cut once."""
        return self._cut(text, path, MAX_TOKENS)

    def chunks_of_head(self, instructions: str) -> tuple[str, ...]:
        """Instructions in chunks of at most 128 tokens, cut once."""
        return self._cut(instructions, None, MAX_HEAD_TOKENS)

    def _cut_now(self, text: str, path: str | None, max_tokens: int) -> tuple[str, ...]:
        # Pieces are no chunks: nobody wants their tokens again.
        return tuple(chunk_by_ner_overlap(text, max_tokens, count_tokens=self.count, path=path))

    def count(self, piece: str) -> int:
        """Tokens of a text that nobody will ask for again. Raises UnencodableText."""
        return len(self._encode(piece))

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_bos=False, continues=True)


def tokens_in_memory(tokenizer: Tokenizer) -> ChunkTokens:
    """For a process that keeps none."""
    return ChunkTokens(ChunkRegistry(IN_MEMORY_BYTES), tokenizer, "the only one")
