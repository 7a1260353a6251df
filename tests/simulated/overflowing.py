"""An executor without a model whose logits overflow from some place of a sequence on."""

from dataclasses import replace

import numpy as np
from decoding import Decoding
from numpy.typing import NDArray

from halfline.model.executor import Batch, Outputs
from halfline.model.reference import with_logits


class OverflowingFrom(Decoding):
    """From that place on all logits are NaN, and nothing is chosen."""

    def __init__(self, place: int) -> None:
        super().__init__(64)
        self._place = place

    def run(self, batch: Batch) -> Outputs | None:
        outputs = super().run(batch)
        assert outputs is not None and outputs.choices is not None
        outputs.logits[self._overflows(batch, batch.logit_rows)] = np.nan
        outputs.choices[self._overflows(batch, batch.choice_rows)] = -1
        return replace(with_logits(outputs, outputs.logits), choices=outputs.choices)

    def _overflows(self, batch: Batch, rows: NDArray[np.int32]) -> NDArray[np.bool_]:
        sequences = np.searchsorted(batch.row_starts, rows, "right") - 1
        places = batch.first_places[sequences] + rows - batch.row_starts[sequences]
        overflows: NDArray[np.bool_] = places >= self._place
        return overflows
