"""What is measured: four workloads of a raw engine, the same for every contestant.

    prefill        one sequence, `prefill` tokens from place 0, one row of logits
    decode         one sequence, `decode` steps of one token, from an (almost) empty context
    decode_deep    the same behind `depth` tokens of context
    parallel       `sequences` sequences of `sequence_depth` tokens each, `sequence_decode` steps of one token each

All are rates of tokens per second; nobody has to sample. Knows nobody who runs them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Workload = Literal["prefill", "decode", "decode_deep", "parallel"]
WORKLOADS: tuple[Workload, ...] = get_args(Workload)

# Tokens per second; a contestant that cannot run a workload leaves it out.
Rates = Mapping[Workload, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many tokens each workload runs."""

    prefill: int = 512
    decode: int = 64
    depth: int = 512
    sequences: int = 16
    sequence_depth: int = 128
    sequence_decode: int = 32
    looks: int = 5
    """How often whatever is measured outside of the rounds is repeated."""

    @property
    def num_places(self) -> int:
        """Places of KV that the largest workload fills, each sequence rounded up to whole blocks of 16."""
        alone = max(self.prefill, self.depth + self.decode)
        together = self.sequence_depth + self.sequence_decode
        return max(-(-alone // 16) * 16, self.sequences * (-(-together // 16) * 16))

    def title(self, workload: Workload) -> str:
        return {
            "prefill": f"prefill {self.prefill}",
            "decode": f"decode {self.decode}",
            "decode_deep": f"decode {self.decode} @ {self.depth}",
            "parallel": f"{self.sequences} × decode @ {self.sequence_depth}",
        }[workload]


FULL = Sizes()
QUICK = Sizes(decode=16, sequence_decode=8, looks=2)
