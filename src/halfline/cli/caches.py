"""The caches of answers as the settings ask for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from halfline.cache.embedding import StaticVectors
from halfline.cache.exact import ExactAnswers
from halfline.cache.fragments import Fragments
from halfline.cache.guessing import GuessingTier
from halfline.cache.semantic import SemanticTier
from halfline.cache.store import Store, open_store
from halfline.cache.syntax import SyntaxTier
from halfline.cache.worth import Totals
from halfline.settings import Settings


@dataclass(frozen=True, slots=True)
class Caches:
    """`exact` and `fragments` None: it is off. `guessing` in the order in which they are asked."""

    store: Store
    exact: ExactAnswers | None
    fragments: Fragments | None
    guessing: tuple[GuessingTier, ...]
    save: Callable[[], None]

    def close(self) -> None:
        """Keep what outlives the process. Blocks."""
        self.store.close()
        self.save()


def open_caches(settings: Settings, scope: bytes) -> Caches:
    """`scope` says what computes. Raises MissingExtra for a tier that is on and not installed."""
    options = settings.cache
    guessing: list[GuessingTier] = []
    save: Callable[[], None] = _nothing
    file = settings.cache_dir / "guesses" if options.disk_bytes else None
    if options.semantic == "on":
        semantic = SemanticTier(StaticVectors(), options.min_similarity, file)
        save = semantic.save
        guessing.append(semantic)
    store = open_store(options, settings.cache_dir)
    if options.syntax == "on":
        guessing.insert(0, SyntaxTier(store))
    on = options.exact == "on"
    return Caches(
        store,
        ExactAnswers(store, scope) if on else None,
        Fragments(store, scope, options.max_age_s) if on else None,
        tuple(guessing),
        save,
    )


@dataclass(frozen=True, slots=True)
class CacheNumbers:
    """What /metrics shows of them."""

    store: Store
    totals: Callable[[], Mapping[str, Totals]]

    @property
    def num_bytes(self) -> int:
        return self.store.num_bytes

    def counts(self) -> Mapping[tuple[str, str], int]:
        return self.store.counts()

    def lookups(self) -> Mapping[tuple[str, str], int]:
        return self.store.lookups()

    def guesses(self) -> Mapping[str, Totals]:
        return self.totals()


def _nothing() -> None:
    """What is kept in memory alone needs no saving."""
