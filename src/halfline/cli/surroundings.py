"""What the settings say about text of other files, put together."""

from pathlib import Path

from halfline.context.sources.found import RankedSources, Source
from halfline.context.sources.index import index_of
from halfline.context.sources.recent import RecentEdits, RecentFiles, RecentlyAlike
from halfline.context.sources.workspace import ImportedDefinitions, SimilarPieces
from halfline.context.surroundings import Surroundings
from halfline.errors import BadSettings
from halfline.settings import Settings
from halfline.text.tokenizer import Tokenizer


def surroundings_of(settings: Settings, tokenizer: Tokenizer, vocab_size: int) -> Surroundings | None:
    """None where the settings leave other files as clients send them. Raises BadSettings for a folder that was not
    indexed.
    """
    sources: list[Source] = []
    recent = RecentFiles(settings.context.recent_files) if settings.context.recent_files else None
    if recent is not None:
        sources += [RecentEdits(recent), RecentlyAlike(recent)]
    if settings.context.index is not None:
        index = index_of(Path(settings.context.index), settings.data_dir)
        if not index.exists:
            raise BadSettings(
                f"context.index is {settings.context.index}, which was not read yet:"
                f" `halfline index {settings.context.index}`"
            )
        sources = [ImportedDefinitions(index), *sources, SimilarPieces(index)]
    if not sources and not settings.context.compression and settings.context.chosen == "first":
        return None
    source = RankedSources(sources, settings.pipeline.part_tokens) if sources else None
    return Surroundings(tokenizer, vocab_size, settings.context, source, recent)
