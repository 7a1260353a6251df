"""halfline's own engine as a contestant: the CPU executor called directly.

It chooses the tokens, as it does for greedy requests: those of a lone sequence in one call, those of several together
step by step, as the scheduler's runner calls it.
"""

from halfline.bench.steps import blocks_for, decode_seconds, fill, greedy_seconds, prefill_seconds
from halfline.bench.workloads import Rates, Sizes
from halfline.native.executor import NativeExecutor


class OurEngine:
    """Holds weights and a touched arena for as long as it lives; its threads sleep between turns."""

    def __init__(self, name: str, executor: NativeExecutor, sizes: Sizes) -> None:
        self._name = name
        self._executor = executor
        self._sizes = sizes
        fill(executor, sizes.sequences, sizes.sequence_depth, self._blocks_together)

    @property
    def name(self) -> str:
        return self._name

    @property
    def _blocks_together(self) -> int:
        return blocks_for(self._sizes.sequence_depth + self._sizes.sequence_decode)

    def measure(self) -> Rates:
        sizes, executor = self._sizes, self._executor
        prefill_seconds(executor, 32)  # wakes the threads, as llama-bench does
        prefill = sizes.prefill / prefill_seconds(executor, sizes.prefill)
        decode = sizes.decode / greedy_seconds(executor, first_place=0, steps=sizes.decode)
        fill(executor, 1, sizes.depth, blocks_for(sizes.depth + sizes.decode))
        deep = greedy_seconds(executor, first_place=sizes.depth, steps=sizes.decode)
        fill(executor, sizes.sequences, sizes.sequence_depth, self._blocks_together)
        together = decode_seconds(
            executor,
            num_sequences=sizes.sequences,
            first_place=sizes.sequence_depth,
            steps=sizes.sequence_decode,
            wanted="choices",
        )
        return {
            "prefill": prefill,
            "decode": decode,
            "decode_deep": sizes.decode / deep,
            "parallel": sizes.sequences * sizes.sequence_decode / together,
        }

    def close(self) -> None:
        """The executor is freed with its last reference."""
