"""An executor that says what a test wants to hear."""

import numpy as np

from halfline.engine.hash_executor import HashExecutor
from halfline.model.executor import Batch, Outputs
from halfline.model.random_model import EOS_ID
from halfline.model.reference import with_logits


class ScriptedExecutor(HashExecutor):
    """Answers every prompt of `num_prompt` tokens with the script, then with EOS for ever. Token n is byte n."""

    def __init__(self, script: str, num_prompt: int) -> None:
        super().__init__(64)
        self._script = [*script.encode(), EOS_ID]
        self._num_prompt = num_prompt

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        if outputs is None:
            return None
        for logits, row in zip(outputs.logits, batch.logit_rows.tolist(), strict=True):
            sequence = int(np.searchsorted(batch.row_starts, row, side="right")) - 1
            place = int(batch.first_places[sequence]) + row - int(batch.row_starts[sequence])
            logits[:] = -1.0
            logits[self._script[min(place + 1 - self._num_prompt, len(self._script) - 1)]] = 1.0
        return with_logits(outputs, outputs.logits)
