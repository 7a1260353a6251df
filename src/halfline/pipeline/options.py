"""What an operator may turn about the pipeline."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """The editor mode's window is the biggest lever on latency."""

    prefix_tokens: int = 1536
    """Most tokens before the cursor that the model sees in editor mode."""

    fresh_prefix_tokens: int = 128
    """Tokens before the cursor at which a window begins where a document was not edited lately: what a cold start
    computes."""

    grown_prefix_tokens: int = 512
    """Tokens before the cursor at which it begins once one has typed there for a while, and an idle engine had time to
    read them. From there it grows with what is typed, up to `prefix_tokens`."""

    infill_order: Literal["auto", "psm", "spm", "suffix_first", "anchored", "prefix_only"] = "auto"
    """How an infilling model's prompt is put together; `auto` tries all at start, on a few small holes."""

    suffix_tokens: int = 256
    """Most tokens behind the cursor that the model sees in editor mode."""

    part_tokens: int = 512
    """Most tokens of other files before the document; 0: none. A model that infills and has no marker of a file gets
    none."""

    healing: Literal["on", "off"] = "on"
    """Whether the word before an editor's cursor is left to the model, which says it first in tokens of its own choice;
    `off` ends the prompt at the cursor, within the word."""

    postprocess: bool = True
    """Whether an editor's answer is trimmed to what fits at the cursor, where the request does not say."""

    min_confidence: float = 0.0
    """How probable, from 0 to 1, the model has to find an answer's first tokens for it to be shown; 0 shows all."""

    suggestions: Literal["on", "off"] = "on"
    """Whether tokens that were predicted are remembered, so that typing them computes nothing. Answers are the same
    either way."""

    rerank: int = 0
    """Answers drawn beside the greedy one where the model knows no infilling tokens; of all of them the one is shown
    that fits best to what stands behind the cursor. Takes two to four times as long; 0 shows the greedy one."""

    deadline_ms: int | None = None
    """Milliseconds after which an answer ends with what there is, where the request does not say. Left out: never."""

    kept_receipts: int = 1024
    """How many of the latest completions can be asked for by `GET /v1/completions/{id}/why`."""

    def __post_init__(self) -> None:
        if self.prefix_tokens < 64:
            raise ValueError(f"prefix_tokens is {self.prefix_tokens}, it must be at least 64")
        if not 16 <= self.fresh_prefix_tokens <= self.prefix_tokens:
            raise ValueError(
                f"fresh_prefix_tokens is {self.fresh_prefix_tokens}, it must be between 16 and prefix_tokens,"
                f" which is {self.prefix_tokens}"
            )
        if self.grown_prefix_tokens < self.fresh_prefix_tokens:
            raise ValueError(
                f"grown_prefix_tokens is {self.grown_prefix_tokens}, less than fresh_prefix_tokens,"
                f" which is {self.fresh_prefix_tokens}"
            )
        if self.suffix_tokens < 0:
            raise ValueError(f"suffix_tokens is {self.suffix_tokens}, it must not be negative")
        if self.part_tokens < 0:
            raise ValueError(f"part_tokens is {self.part_tokens}, it must not be negative")
        if not 0.0 <= self.min_confidence <= 1.0:
            raise ValueError(f"min_confidence is {self.min_confidence}, it must be between 0 and 1")
        if self.deadline_ms is not None and self.deadline_ms < 1:
            raise ValueError(f"deadline_ms is {self.deadline_ms}, it must be at least 1")
        if not 0 <= self.rerank <= 16:
            raise ValueError(f"rerank is {self.rerank}, it must be between 0 and 16")
        if self.kept_receipts < 1:
            raise ValueError(f"kept_receipts is {self.kept_receipts}, it must be at least 1")
