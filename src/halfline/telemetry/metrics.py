"""Every number that GET /metrics shows.

Knows names, units and buckets. It keeps its own registry, so that two servers in one process count apart.
Prometheus counters only grow; gauges are read from the engine at the moment somebody asks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from halfline.request import Receipt
from halfline.telemetry.latencies import BOUNDS_S, Latencies

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Seconds. A keystroke is answered in tens of milliseconds, a cold prompt in seconds.
_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class EngineState(Protocol):
    """What the engine holds at one moment."""

    @property
    def num_running(self) -> int: ...

    @property
    def num_waiting(self) -> int: ...

    @property
    def num_held_blocks(self) -> int:
        """Blocks in the table of a living sequence."""

    @property
    def num_cached_blocks(self) -> int:
        """Idle blocks whose content a later prompt may reuse."""

    @property
    def num_blank_blocks(self) -> int: ...

    @property
    def num_pinned_blocks(self) -> int:
        """Held ones that are kept for prompts that begin alike."""

    @property
    def total_steps(self) -> int: ...

    @property
    def total_computed_tokens(self) -> int:
        """For whomever: asked for, ahead of who asks, and cancelled before their end."""

    @property
    def total_preemptions(self) -> int: ...

    @property
    def total_drafted_tokens(self) -> Mapping[str, int]:
        """Guessed tokens that were run, by where the guess came from."""

    @property
    def total_accepted_tokens(self) -> Mapping[str, int]:
        """Those of them that the model agreed with."""

    @property
    def total_greedy_run_tokens(self) -> int:
        """Tokens that the executor chose by itself, several in a row."""

    @property
    def total_tokens_beyond(self) -> int:
        """Those of them behind the end of their sequence."""

    @property
    def total_copied_blocks(self) -> int: ...

    @property
    def total_evicted_tails(self) -> int:
        """Cached blocks, not full, that were taken for new contents."""

    @property
    def total_evicted_blocks(self) -> int:
        """The same of full ones."""

    @property
    def cancels(self) -> Latencies:
        """From the moment something was called off, superseded or shed to its end."""

    @property
    def total_saved_blocks(self) -> int:
        """Handed to the disk."""

    @property
    def total_fetched_blocks(self) -> int:
        """Back from the disk."""


class AheadState(Protocol):
    """What was computed for keystrokes that had not come yet."""

    @property
    def num_computed_ahead(self) -> int:
        """Tokens."""

    @property
    def num_used_ahead(self) -> int:
        """Those of them that somebody asked for later."""


TaskCounts = tuple[str, str, Mapping[str, int]]
"""A task, one of its versions, and how many of its answers were what."""


class Metrics:
    """Counts requests and completions, and shows the engine once `watch` was told where to look."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "halfline_requests", "HTTP requests answered.", ("route", "status"), registry=self.registry
        )
        self._request_seconds = self._histogram("request", "Time from request to last byte.", ("route",))
        self._completions = Counter(
            "halfline_completions", "Choices finished.", ("finish_reason",), registry=self.registry
        )
        self._coalesced = Counter(
            "halfline_coalesced",
            "Requests answered by the generation of another that asked the same at the same time.",
            registry=self.registry,
        )
        self._answers = Counter(
            "halfline_answers",
            "Requests answered, by where the answer came from: computed (miss), asked before (exact), predicted before"
            " and so known as a whole (typed), known in its beginning (continued), computed from a guess that was"
            " right (syntax, semantic), or fetched by its address (http).",
            ("tier",),
            registry=self.registry,
        )
        self._known_tokens = Counter(
            "halfline_known_tokens",
            "Generated tokens that were known before they were asked for.",
            registry=self.registry,
        )
        self._unshown_tokens = Counter(
            "halfline_unshown_tokens",
            "Tokens generated for a request that are no part of its answer: cut off, or behind its end.",
            registry=self.registry,
        )
        self._tokens = Counter(
            "halfline_tokens",
            "Tokens: prompt tokens reused from the KV cache, prompt tokens computed, tokens generated.",
            ("kind",),
            registry=self.registry,
        )
        self._suggestions = Counter(
            "halfline_suggestions",
            "What clients told of answers: shown, accepted, dismissed.",
            ("kind",),
            registry=self.registry,
        )
        self._kept_characters = Counter(
            "halfline_suggestion_characters", "Characters of answers accepted.", registry=self.registry
        )
        self._kept_rate = Gauge(
            "halfline_suggestions_kept_ratio",
            "Share of the latest answers shown that were accepted, in part or whole.",
            registry=self.registry,
        )
        self._queue_seconds = self._histogram("queue", "Time in which nothing was computed for a completion.")
        self._prefill_seconds = self._histogram("prefill", "Time from first step to first token.")
        self._decode_seconds = self._histogram("decode", "Time from first token to last.")

    def answered(self, route: str, status: int | str, seconds: float) -> None:
        """One request is over; `status` is HTTP's number or gRPC's name. `route` is a pattern, never a path: paths are
        unbounded.
        """
        self._requests.labels(route, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def completed(self, receipt: Receipt) -> None:
        """One completion is over, however it ended."""
        if receipt.coalesced_with is not None:
            self._coalesced.inc()
        for reason in receipt.finish_reasons:
            self._completions.labels(reason).inc()
        self._answers.labels(receipt.tier).inc()
        self._known_tokens.inc(receipt.num_known_tokens)
        self._unshown_tokens.inc(receipt.num_unshown_tokens)
        self._tokens.labels("reused").inc(receipt.num_reused_tokens)
        self._tokens.labels("computed").inc(receipt.num_computed_tokens)
        self._tokens.labels("generated").inc(receipt.num_generated_tokens)
        self._queue_seconds.observe(receipt.queue_ms / 1000)
        self._prefill_seconds.observe(receipt.prefill_ms / 1000)
        self._decode_seconds.observe(receipt.decode_ms / 1000)

    def fetched(self) -> None:
        """An answer was fetched by its address."""
        self._answers.labels("http").inc()

    def watch(self, state: Callable[[], EngineState]) -> None:
        """Show what `state` returns at each scrape from now on."""
        self.registry.register(_EngineCollector(state))

    def watch_ahead(self, state: Callable[[], AheadState]) -> None:
        """As `watch`, for what is computed ahead of keystrokes."""
        self.registry.register(_AheadCollector(state))

    def watch_tasks(self, counts: Callable[[], Sequence[TaskCounts]]) -> None:
        """As `watch`, for what became of tasks' answers."""
        self.registry.register(_TaskCollector(counts))

    def exposition(self) -> bytes:
        """Everything in Prometheus's text format, served with `CONTENT_TYPE`."""
        return generate_latest(self.registry)

    def suggestion(self, kind: str, characters: int, kept_rate: float) -> None:
        """A client told what became of an answer; `kept_rate` is that of the latest from now on."""
        self._suggestions.labels(kind).inc()
        if kind == "accepted":
            self._kept_characters.inc(characters)
        self._kept_rate.set(kept_rate)

    def _histogram(self, what: str, meaning: str, labels: tuple[str, ...] = ()) -> Histogram:
        return Histogram(
            f"halfline_{what}_seconds", meaning, labels, buckets=_BUCKETS, registry=self.registry
        )


class _TaskCollector(Collector):
    def __init__(self, counts: Callable[[], Sequence[TaskCounts]]) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        answers = CounterMetricFamily(
            "halfline_task_answers",
            "Answers of each version of each task: asked for, shown, accepted, dismissed.",
            labels=("task", "version", "kind"),
        )
        for task, version, counts in self._counts():
            for kind, count in counts.items():
                answers.add_metric((task, version, kind), count)
        yield answers


class _AheadCollector(Collector):
    def __init__(self, state: Callable[[], AheadState]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        tokens = CounterMetricFamily(
            "halfline_ahead_tokens",
            "Tokens computed for keystrokes that had not come yet, and those of them that were asked for later.",
            labels=("kind",),
        )
        tokens.add_metric(("computed",), state.num_computed_ahead)
        tokens.add_metric(("used",), state.num_used_ahead)
        yield tokens


class _EngineCollector(Collector):
    def __init__(self, state: Callable[[], EngineState]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        sequences = GaugeMetricFamily("halfline_sequences", "Sequences in the engine.", labels=("state",))
        sequences.add_metric(("running",), state.num_running)
        sequences.add_metric(("waiting",), state.num_waiting)
        yield sequences
        blocks = GaugeMetricFamily(
            "halfline_kv_blocks",
            "KV blocks: held by a sequence or pinned, cached for reuse, or blank.",
            labels=("state",),
        )
        blocks.add_metric(("held",), state.num_held_blocks)
        blocks.add_metric(("cached",), state.num_cached_blocks)
        blocks.add_metric(("blank",), state.num_blank_blocks)
        yield blocks
        yield GaugeMetricFamily(
            "halfline_kv_pinned_blocks",
            "Held KV blocks that are kept for tasks' prompts, which begin alike.",
            state.num_pinned_blocks,
        )
        yield CounterMetricFamily("halfline_steps", "Batches run.", state.total_steps)
        yield CounterMetricFamily(
            "halfline_run_tokens",
            "Tokens computed for whomever: asked for, ahead of who asks, and cancelled before their end.",
            state.total_computed_tokens,
        )
        yield CounterMetricFamily(
            "halfline_preemptions",
            "Sequences that gave their blocks up and wait again.",
            state.total_preemptions,
        )
        drafts = CounterMetricFamily(
            "halfline_draft_tokens",
            "Guessed tokens that were run, and those the model agreed with, by where the guess came from.",
            labels=("source", "kind"),
        )
        for kind, counts in (
            ("drafted", state.total_drafted_tokens),
            ("accepted", state.total_accepted_tokens),
        ):
            for source, count in counts.items():
                drafts.add_metric((source, kind), count)
        yield drafts
        runs = CounterMetricFamily(
            "halfline_greedy_run_tokens",
            "Tokens that the executor chose several in a row: taken, or computed behind an end that showed only then.",
            labels=("kind",),
        )
        runs.add_metric(("taken",), state.total_greedy_run_tokens - state.total_tokens_beyond)
        runs.add_metric(("beyond",), state.total_tokens_beyond)
        yield runs
        bounds = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
        yield HistogramMetricFamily(
            "halfline_cancel_seconds",
            "Time from calling off a running completion, superseding and shedding included, to its end.",
            buckets=list(zip(bounds, accumulate(state.cancels.counts), strict=True)),
            sum_value=state.cancels.sum_s,
        )
        evictions = CounterMetricFamily(
            "halfline_kv_evictions",
            "Cached KV blocks taken for new contents: full ones, and last ones of a sequence that were not full.",
            labels=("contents",),
        )
        evictions.add_metric(("block",), state.total_evicted_blocks)
        evictions.add_metric(("tail",), state.total_evicted_tails)
        yield evictions
        disk = CounterMetricFamily(
            "halfline_kv_disk_blocks",
            "KV blocks handed to the disk, and fetched from it.",
            labels=("direction",),
        )
        disk.add_metric(("saved",), state.total_saved_blocks)
        disk.add_metric(("fetched",), state.total_fetched_blocks)
        yield disk
        yield CounterMetricFamily(
            "halfline_kv_copies",
            "KV blocks copied because a prompt shared only their beginning.",
            state.total_copied_blocks,
        )
