"""What an operator may turn about the pipeline."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """`prefix_tokens` and `suffix_tokens` bound the editor mode's window around the cursor: the biggest lever on
    latency. `kept_receipts` of the latest requests can be asked for.
    """

    prefix_tokens: int = 1024
    suffix_tokens: int = 256
    kept_receipts: int = 1024

    def __post_init__(self) -> None:
        if self.prefix_tokens < 64:
            raise ValueError(f"prefix_tokens is {self.prefix_tokens}, it must be at least 64")
        if self.suffix_tokens < 0:
            raise ValueError(f"suffix_tokens is {self.suffix_tokens}, it must not be negative")
        if self.kept_receipts < 1:
            raise ValueError(f"kept_receipts is {self.kept_receipts}, it must be at least 1")
