"""Where the tokens of other files' chunks are kept, as the settings say."""

from halfline.context.chunks.chunk_file import ChunkFile
from halfline.context.chunks.chunk_tokens import IN_MEMORY_BYTES, ChunkTokens, tokens_in_memory
from halfline.context.chunks.registry import ChunkRegistry
from halfline.settings import Settings
from halfline.text.tokenizer import Tokenizer


def open_chunks(settings: Settings, tokenizer: Tokenizer) -> ChunkTokens:
    """In memory, and with `chunk_disk_bytes` in a file of the cache directory too; `registry.close` leaves it."""
    if not settings.chunk_disk_bytes:
        return tokens_in_memory(tokenizer)
    file = ChunkFile(settings.cache_dir / "chunks.sqlite", settings.chunk_disk_bytes)
    return ChunkTokens(ChunkRegistry(IN_MEMORY_BYTES, file), tokenizer, tokenizer.digest)
