"""Passes by the names that settings use for them."""

from collections.abc import Callable, Mapping, Sequence

from halfline.context.compression.controls import KeepTail, Random, Uniform
from halfline.context.compression.entropy import EntropyTruncation, MeanPlusDeviations, TimesMean
from halfline.context.compression.names import PassName
from halfline.context.compression.passes import Chain, LineTokens, Pass
from halfline.context.compression.pruning import LinePruning, WordPruning
from halfline.context.compression.relatedness import InCommon, Related
from halfline.context.compression.structure import Bodies, Comments
from halfline.context.compression.window import Duplicates


def build_chain(names: Sequence[PassName], tokens: LineTokens, vocab_size: int) -> Chain:
    """In the order that they are named in."""
    makers: Mapping[PassName, Callable[[], Pass]] = {
        "comments": Comments,
        "duplicates": Duplicates,
        "bodies": Bodies,
        "entropy": lambda: EntropyTruncation(tokens, MeanPlusDeviations()),
        "entropy_article": lambda: EntropyTruncation(tokens, TimesMean()),
        "prune": lambda: LinePruning(tokens, vocab_size, "uncertain"),
        "prune_certain": lambda: LinePruning(tokens, vocab_size, "certain"),
        "prune_words": lambda: WordPruning(tokens, vocab_size, "uncertain"),
        "prune_words_article": lambda: WordPruning(tokens, vocab_size, "certain"),
        "related": lambda: Related(tokens),
        "in_common": lambda: InCommon(tokens),
        "tail": lambda: KeepTail(tokens),
        "uniform": lambda: Uniform(tokens),
        "random": lambda: Random(tokens),
    }
    return Chain([makers[name]() for name in names])
