"""What makes a batch inconsistent, said once for every executor; computes nothing."""

import numpy as np

from halfline.model.executor import BLOCK_TOKENS, Batch, GreedyRun, Mask
from halfline.model.kv_format import F16, KvFormat
from halfline.model.spec import ModelSpec


def check_batch(batch: Batch, spec: ModelSpec, num_blocks: int, kv_format: KvFormat = F16) -> None:
    """Raises ValueError naming the first thing that is out of range or contradicts another."""
    num_rows, num_sequences = len(batch.token_ids), len(batch.first_places)
    starts = batch.row_starts
    if len(starts) != num_sequences + 1 or len(batch.masks) != num_sequences:
        raise ValueError(
            f"{num_sequences} first places need as many masks and one more row start,"
            f" not {len(batch.masks)} and {len(starts)}"
        )
    if batch.block_tables.ndim != 2 or len(batch.block_tables) != num_sequences:
        raise ValueError(f"block tables of shape {batch.block_tables.shape} for {num_sequences} sequences")
    if starts[0] != 0 or starts[-1] != num_rows or np.any(np.diff(starts) < 1):
        raise ValueError(f"row starts {starts.tolist()} do not cut {num_rows} rows into non-empty sequences")
    _require_range("token", batch.token_ids, spec.vocab_size)
    _require_range("logit row", batch.logit_rows, num_rows)
    _require_range("hidden row", batch.hidden_rows, num_rows)
    _require_range("choice row", batch.choice_rows, num_rows)
    if not 0 <= batch.top_k <= spec.vocab_size:
        raise ValueError(f"the {batch.top_k} largest of {spec.vocab_size} logits")
    for sequence, mask in enumerate(batch.masks):
        first = int(batch.first_places[sequence])
        stop = first + int(starts[sequence + 1] - starts[sequence])
        num_wanted = max(_num_blocks(stop, kv_format), _num_blocks(first, kv_format))
        places = min(batch.block_tables.shape[1] * BLOCK_TOKENS, spec.max_context)
        if first < 0 or stop > places or num_wanted > batch.block_tables.shape[1]:
            raise ValueError(f"sequence {sequence} spans places [{first}, {stop}) of {places}")
        table = batch.block_tables[sequence, :num_wanted]
        _require_range(f"block of sequence {sequence}", table, num_blocks)
        _check_mask(mask, first, stop)


def check_greedy_run(run: GreedyRun, spec: ModelSpec, num_blocks: int, kv_format: KvFormat = F16) -> None:
    """Raises ValueError as `check_batch` does for its steps: for the first and the last, which need most."""
    if run.max_tokens < 1:
        raise ValueError(f"a run of {run.max_tokens} tokens")
    for place in (run.place, run.place + run.max_tokens - 1):
        only = np.zeros(1, dtype=np.int32)
        step = Batch(
            token_ids=np.array([run.token_id], dtype=np.int32),
            row_starts=np.array([0, 1], dtype=np.int32),
            first_places=np.array([place], dtype=np.int32),
            block_tables=run.block_table.reshape(1, -1),
            masks=[run.mask],
            logit_rows=only,
            hidden_rows=only[:0],
        )
        check_batch(step, spec, num_blocks, kv_format)


def _num_blocks(num_tokens: int, kv_format: KvFormat) -> int:
    """Blocks that hold so many tokens now."""
    num_full, num_open = divmod(num_tokens, BLOCK_TOKENS)
    return num_full + (kv_format.num_open_blocks if num_open else 0)


def _check_mask(mask: Mask, first: int, stop: int) -> None:
    if mask.window is not None and (mask.window < 1 or mask.prefix):
        raise ValueError(f"a window of {mask.window} with a prefix of {mask.prefix}")
    if mask.num_sinks < 0 or mask.prefix < 0:
        raise ValueError(f"{mask.num_sinks} sinks and a prefix of {mask.prefix}")
    if first < mask.prefix and not (first == 0 and mask.prefix <= stop):
        raise ValueError(f"the prefix of {mask.prefix} must be computed at once, not in [{first}, {stop})")


def _require_range(what: str, values: np.ndarray[tuple[int, ...], np.dtype[np.int32]], stop: int) -> None:
    if len(values) and (values.min() < 0 or values.max() >= stop):
        raise ValueError(f"a {what} is {int(values.min())}..{int(values.max())}, not within [0, {stop})")
