"""What an operator may turn about the engine."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """How much runs at once."""

    step_tokens: int = 256
    """Most rows of one step, at most 65536, and so how long a running sequence waits for its next token while others'
    prompts are being computed."""

    step_ms: float = 30.0
    """Most milliseconds a step should take while others wait beside its prompt, or when there is batch work; a prompt
    that nobody waits beside gets four times as long. How many rows that allows is learned from the steps that ran."""

    patience_s: float = 5.0
    """Seconds of waiting for rows that lift a key one class, from idle to batch to interactive, and then before
    everybody, for one step."""

    max_num_seqs: int = 256
    """Most sequences that run at once; not more than `step_tokens`, or one could miss its turn."""

    max_waiting: int = 1024
    """Most sequences that wait for their turn; more are refused with 429. From a quarter of it on, idle work is refused
    and ended; from half of it on, editor windows are half as long."""

    prefix_caching: Literal["on", "off"] = "on"
    """Whether a prompt takes over the KV of what it has in common with earlier ones. Answers are the same either way:
    this is for measuring what it is worth."""

    speculation: Literal["auto", "off"] = "auto"
    """Whether to guess next tokens from text seen before and check several in one step, where that is measured to be
    faster. What is generated is the same either way."""

    max_draft_tokens: int = 16
    """Most tokens guessed at once for one sequence."""

    run_tokens: int = 4
    """Most tokens in a row that the executor chooses by itself for a greedy request that is alone and has nothing
    guessed; whoever comes stops it within a layer. A stream gets as many at once, and what comes behind a stop string
    is computed for nothing. 1 comes back for each. Answers are the same either way."""

    pinned_tokens: int = 4096
    """Most tokens of the constant beginnings of tasks' prompts whose KV stays in memory whatever else comes. Only what
    the KV cache has beyond one full context is used for it; 0 keeps none longer than anything else."""

    def __post_init__(self) -> None:
        for name in ("step_tokens", "max_num_seqs", "max_waiting", "max_draft_tokens", "run_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least 1")
        if self.pinned_tokens < 0:
            raise ValueError(f"pinned_tokens is {self.pinned_tokens}, it must not be negative")
        if self.step_tokens > 65536:
            raise ValueError(f"step_tokens is {self.step_tokens}, it must be at most 65536")
        for name, value in (("step_ms", self.step_ms), ("patience_s", self.patience_s)):
            if not value > 0.0:
                raise ValueError(f"{name} is {value}, it must be more than 0")
        if self.step_tokens < self.max_num_seqs:
            raise ValueError(
                f"step_tokens ({self.step_tokens}) is less than max_num_seqs ({self.max_num_seqs}):"
                " a step could not give every running sequence its next token"
            )
