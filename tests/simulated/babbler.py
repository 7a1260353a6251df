"""An executor that babbles."""

from dataclasses import replace

import numpy as np

from halfline.engine.hash_executor import HashExecutor
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import EOS_ID

LIKELY = np.array([*b"abc(). \n"])


class Babbler(HashExecutor):
    """Says something that one can type, and with `silences` nothing, now and then.

    Token n is byte n. `rows` is how many tokens each step ran.
    """

    def __init__(self, *, silences: bool = False) -> None:
        super().__init__(256)
        self.rows: list[int] = []
        self._eos_bonus = 4.0 if silences else -100.0

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        self.rows.append(len(batch.token_ids))
        if outputs is not None:
            outputs.logits[:, LIKELY] += 4.0
            outputs.logits[:, EOS_ID] += self._eos_bonus
        return outputs if outputs is None else replace(outputs, top=None)
