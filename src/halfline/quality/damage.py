"""Executors and a tokenizer with a known fault each: a quality gate that lets one of them pass is broken.

Wrappers around the interfaces, so that nothing that serves knows of them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from halfline.model.executor import Batch, Executor, Outputs, StopFlag
from halfline.model.kv_format import KvFormat
from halfline.model.reference import with_logits
from halfline.model.spec import ModelSpec
from halfline.text.tokenizer import Tokenizer


class Damaged:
    """Passes everything through; the subclasses below each spoil one thing in `run`."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    @property
    def spec(self) -> ModelSpec:
        return self._executor.spec

    @property
    def num_blocks(self) -> int:
        return self._executor.num_blocks

    @property
    def kv_format(self) -> KvFormat:
        return self._executor.kv_format

    @property
    def stop_flag(self) -> StopFlag:
        return self._executor.stop_flag

    def run(self, batch: Batch) -> Outputs | None:
        return self._executor.run(batch)

    def copy_blocks(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        self._executor.copy_blocks(sources, targets)

    def export_blocks(self, block_ids: Sequence[int]) -> NDArray[np.uint8]:
        return self._executor.export_blocks(block_ids)

    def import_blocks(self, block_ids: Sequence[int], data: NDArray[np.uint8]) -> None:
        self._executor.import_blocks(block_ids, data)


class NoisyLogits(Damaged):
    """Gaussian noise of standard deviation `deviation` on every logit."""

    def __init__(self, executor: Executor, deviation: float, generator: np.random.Generator) -> None:
        super().__init__(executor)
        self._deviation = deviation
        self._generator = generator

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        if outputs is None:
            return None
        noise = self._deviation * self._generator.standard_normal(outputs.logits.shape)
        return with_logits(outputs, (outputs.logits + noise).astype(np.float32))


class WrongKVRow(Damaged):
    """The KV at one place of each sequence is another token's; batches that come later read it."""

    def __init__(self, executor: Executor, place: int) -> None:
        super().__init__(executor)
        self._place = place

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        for sequence, first in enumerate(batch.first_places):
            row = batch.row_starts[sequence] + self._place - first
            if batch.row_starts[sequence] <= row < batch.row_starts[sequence + 1]:
                self._overwrite(batch, sequence, int(batch.token_ids[row]))
        return outputs

    def _overwrite(self, batch: Batch, sequence: int, token_id: int) -> None:
        nothing = np.array([], np.int32)
        super().run(
            Batch(
                token_ids=np.array([(token_id + 1) % self.spec.vocab_size], np.int32),
                row_starts=np.array([0, 1], np.int32),
                first_places=np.array([self._place], np.int32),
                block_tables=batch.block_tables[sequence : sequence + 1],
                masks=batch.masks[sequence : sequence + 1],
                logit_rows=nothing,
                hidden_rows=nothing,
            )
        )


class OffByOne(Damaged):
    """A sequence that goes on starts one place early, over the last row that it already has."""

    def run(self, batch: Batch) -> Outputs | None:
        early = np.where(batch.first_places > 0, batch.first_places - 1, 0).astype(np.int32)
        return super().run(replace(batch, first_places=early))


class WrongSign(Damaged):
    """Every `nth` token's logit lies on the wrong side of its row's mean."""

    def __init__(self, executor: Executor, nth: int) -> None:
        super().__init__(executor)
        self._nth = nth

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        if outputs is None:
            return None
        logits = outputs.logits.copy()
        turned = logits[:, :: self._nth]
        turned[:] = 2 * logits.mean(axis=1, keepdims=True) - turned
        return with_logits(outputs, logits)


class BlanksApart(Tokenizer):
    """Cuts between any two spaces, so that an indentation is many tokens in the place of one or two."""

    def encode(self, text: str, *, add_bos: bool | None = None, continues: bool = False) -> list[int]:
        first, *others = _BETWEEN_SPACES.split(text)
        token_ids = super().encode(first, add_bos=add_bos, continues=continues)
        for other in others:
            token_ids += super().encode(other, add_bos=False, continues=True)
        return token_ids


_BETWEEN_SPACES = re.compile("(?<= )(?= )")

PLANTS: Mapping[str, Callable[[Executor], Executor]] = {
    "noise": lambda executor: NoisyLogits(executor, 0.3, np.random.default_rng(0)),
    "kv-row": lambda executor: WrongKVRow(executor, place=3),
    "position": OffByOne,
    "sign": lambda executor: WrongSign(executor, nth=64),
}
"""Faults that a gate has to find, by name."""
