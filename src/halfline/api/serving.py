"""The pipeline behind the server: still loading, ready, or failed.

The HTTP server answers from its first moment; the model comes up in a thread beside it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from halfline.api.chat_template import ChatTemplate
from halfline.cache.fragments import Fragments
from halfline.context.chunks.chunk_tokens import ChunkTokens
from halfline.context.templates.library import TaskLibrary
from halfline.errors import EngineFailed, HalflineError, Loading
from halfline.pipeline.embed import Embedding
from halfline.pipeline.pipeline import Pipeline
from halfline.telemetry.cache_collector import CacheCollector, CacheState
from halfline.telemetry.log import fields
from halfline.telemetry.metrics import AheadState, EngineState, Metrics
from halfline.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)


class Embeds(Protocol):
    """What the server needs of who embeds."""

    async def embed(
        self, prompt: str | tuple[int, ...], tenant: str, user: str = "", key: str = ""
    ) -> Embedding:
        """One vector; cancelling the caller ends the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """What clients may know of the model. `infill_format` None means it knows no infilling tokens. `infill_trial` is
    how well it did in each order (context/order_trial.py), empty when none was tried.

    `num_bytes` and `modified_at` (seconds since 1970) are those of its file or directory.
    """

    name: str
    max_context: int
    infill_format: str | None = None
    infill_order: str | None = None
    infill_trial: Mapping[str, float] = field(default_factory=dict)
    family: str = "unknown"
    num_parameters: int = 0
    num_bytes: int = 0
    modified_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Everything that exists once the model is in memory.

    `failure` is what ended the engine, None while it lives. `close` frees threads and
    memory. `ahead_state` counts what is computed ahead of keystrokes; None: nothing is. `cache_state`
    counts what the caches do; None: there are none. `fragments` are answers by their address; None: there are none.
    """

    pipeline: Pipeline
    embedder: Embeds
    model: ServedModel
    tokenizer: Tokenizer
    chat: ChatTemplate
    engine_state: Callable[[], EngineState]
    failure: Callable[[], BaseException | None]
    close: Callable[[], None]
    ahead_state: Callable[[], AheadState] | None = None
    cache_state: CacheState | None = None
    fragments: Fragments | None = None
    tasks: TaskLibrary = field(default_factory=TaskLibrary)
    chunks: ChunkTokens | None = None

    def engine_failed(self) -> EngineFailed:
        """The error to raise for work that the engine lost."""
        return EngineFailed(self.failure() or RuntimeError("it left no reason"))


class Serving:
    """Loads once, hands out what was loaded, closes it. Used from the event loop's thread only."""

    def __init__(self, load: Callable[[], Loaded], metrics: Metrics) -> None:
        self._load = load
        self._metrics = metrics
        self._loaded: Loaded | None = None
        self._load_failure: Exception | None = None

    async def load(self) -> bool:
        """Run `load` in a thread; whether it returned. What it raises is logged and kept: `loaded` raises EngineFailed
        from then on.
        """
        try:
            self._loaded = await asyncio.to_thread(self._load)
        except HalflineError as error:
            _log.error("model not loaded", extra=fields(reason=str(error)))
            self._load_failure = error
        except Exception as error:
            _log.exception("model not loaded")
            self._load_failure = error
        else:
            self._metrics.watch(self._loaded.engine_state)
            if self._loaded.ahead_state is not None:
                self._metrics.watch_ahead(self._loaded.ahead_state)
            if self._loaded.cache_state is not None:
                self._metrics.registry.register(CacheCollector(self._loaded.cache_state))
        return self._loaded is not None

    @property
    def loaded(self) -> Loaded:
        """Raises Loading before the model is there, EngineFailed when it cannot or no longer work."""
        if self._load_failure is not None:
            raise EngineFailed(self._load_failure)
        if self._loaded is None:
            raise Loading()
        failure = self._loaded.failure()
        if failure is not None:
            raise EngineFailed(failure)
        return self._loaded

    async def close(self) -> None:
        """Close what was loaded, in a thread: it may wait for the engine's last step."""
        if self._loaded is not None:
            await asyncio.to_thread(self._loaded.close)
