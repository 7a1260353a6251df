"""Numbers about the engine, for metrics, health pages and receipts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from halfline.telemetry.latencies import Latencies


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """A snapshot after a step. The block counts add up to `num_blocks`; the `total_` ones only ever rise.

    held: in the table of a living sequence, or pinned · cached: idle, but a later prompt may reuse it · blank: empty.
    pinned: kept for prompts that begin alike (kv/pins.py); one that two of these begin with counts twice.
    drafted: guessed tokens that were run, accepted: those the model agreed with, by where the guess came from.
    `cancels`: from the moment something was called off, superseded or shed to its end, if that was why it ended.
    Greedy run tokens the executor chose by itself, several in a row; those beyond came behind an end that showed only
    then. Evicted are cached blocks that were taken for new contents; tails are those that were not full.
    Saved were handed to the disk, fetched came back from it. `total_compute_s`: of the engine's thread in steps,
    without what the system took from it, and so what steps take on a quiet machine.
    """

    num_running: int = 0
    num_waiting: int = 0
    num_blocks: int = 0
    num_held_blocks: int = 0
    num_pinned_blocks: int = 0
    num_cached_blocks: int = 0
    num_blank_blocks: int = 0
    total_steps: int = 0
    total_computed_tokens: int = 0
    total_reused_tokens: int = 0
    total_generated_tokens: int = 0
    total_preemptions: int = 0
    total_greedy_run_tokens: int = 0
    total_tokens_beyond: int = 0
    total_copied_blocks: int = 0
    total_evicted_tails: int = 0
    total_evicted_blocks: int = 0
    total_saved_blocks: int = 0
    total_fetched_blocks: int = 0
    total_compute_s: float = 0.0
    total_drafted_tokens: Mapping[str, int] = field(default_factory=dict)
    total_accepted_tokens: Mapping[str, int] = field(default_factory=dict)
    cancels: Latencies = field(default_factory=Latencies)
