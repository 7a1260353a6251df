"""An executor without a model that decodes by itself: as single steps, so that whoever looks at steps sees them all."""

import numpy as np
from numpy.typing import NDArray

from halfline.engine.hash_executor import HashExecutor
from halfline.model.batch_check import check_greedy_run
from halfline.model.executor import Batch, GreedyRun


class Decoding(HashExecutor):
    """A `GreedyDecoder`."""

    def decode(self, run: GreedyRun) -> NDArray[np.int32]:
        check_greedy_run(run, self.spec, self.num_blocks, self.kv_format)
        token_ids = [run.token_id]
        while len(token_ids) <= run.max_tokens and (len(token_ids) == 1 or token_ids[-1] not in run.end_ids):
            outputs = self.run(_step(run, token_ids[-1], run.place + len(token_ids) - 1))
            if outputs is None or not np.isfinite(outputs.logits).all():
                break
            token_ids.append(int(outputs.logits.argmax()))
        return np.array(token_ids[1:], np.int32)


def _step(run: GreedyRun, token_id: int, place: int) -> Batch:
    only = np.zeros(1, np.int32)
    return Batch(
        token_ids=np.array([token_id], np.int32),
        row_starts=np.array([0, 1], np.int32),
        first_places=np.array([place], np.int32),
        block_tables=run.block_table[None],
        masks=[run.mask],
        logit_rows=only,
        hidden_rows=only[:0],
    )
