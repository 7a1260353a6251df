"""What the settings say about text of other files, put together."""

from pathlib import Path

from halfline.context.sources.index import index_of
from halfline.context.sources.workspace import WorkspaceSource
from halfline.context.surroundings import Surroundings
from halfline.errors import BadSettings
from halfline.settings import Settings
from halfline.text.tokenizer import Tokenizer


def surroundings_of(settings: Settings, tokenizer: Tokenizer, vocab_size: int) -> Surroundings | None:
    """None where the settings leave other files as clients send them. Raises BadSettings for a folder that was not
    indexed.
    """
    source = None
    if settings.context.index is not None:
        index = index_of(Path(settings.context.index), settings.data_dir)
        if not index.exists:
            raise BadSettings(
                f"context.index is {settings.context.index}, which was not read yet:"
                f" `halfline index {settings.context.index}`"
            )
        source = WorkspaceSource(index, settings.pipeline.part_tokens)
    if source is None and not settings.context.compression:
        return None
    return Surroundings(tokenizer, vocab_size, settings.context, source)
