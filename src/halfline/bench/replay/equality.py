"""Whether two servers gave the same text after every keystroke."""

from collections.abc import Iterator
from dataclasses import dataclass

from halfline.bench.replay.run import Replayed


@dataclass(frozen=True, slots=True)
class Difference:
    """`texts` by side."""

    path: str
    transaction: int
    texts: dict[str, str]


def differences(replayed: Replayed) -> Iterator[Difference]:
    """In the keystrokes' order."""
    for i, asked in enumerate(replayed.asked):
        texts = {outcome.name: outcome.answers[i].text for outcome in replayed.outcomes}
        if len(set(texts.values())) > 1:
            yield Difference(asked.path, asked.transaction, texts)
