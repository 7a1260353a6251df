"""How many panels of the head are computed to the last bit for one greedy token, by how good the bounds are.

    python -m bench.choice_bounds MODEL.gguf [--text FILE]

In float64 numpy, beside the executor (native/csrc/choose.hpp): rows 64, 71 .. 505 of a text, and of random tokens.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halfline.bench.steps import Int32s, batch_of, blocks_for, random_tokens
from halfline.model.dequantize import dequantize
from halfline.model.load import open_checkpoint
from halfline.native.executor import NativeExecutor
from halfline.quality.texts import default_texts
from halfline.text.tokenizer import Tokenizer

_LENGTH, _BLOCK, _PANEL = 512, 32, 16
_ROWS = np.arange(64, _LENGTH, 7)

Array = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path, default=default_texts()[0])
    asked = parser.parse_args()
    checkpoint = open_checkpoint(asked.model)
    executor = NativeExecutor(checkpoint, num_blocks=blocks_for(_LENGTH))
    head = "head.weight" if "head.weight" in checkpoint.names() else "embed.weight"
    weights = dequantize(checkpoint.tensor(head)).astype(np.float64)
    weights = weights[: len(weights) // _PANEL * _PANEL]
    token_ids = np.array(Tokenizer(checkpoint.vocab).encode(asked.text.read_text("utf-8")), np.int32)
    for name, tokens in ((asked.text.name, token_ids), ("random tokens", random_tokens(executor, _LENGTH))):
        print(f"{name}: panels of {len(weights) // _PANEL} a row, mean (median, most)")
        for bound, counts in _counts(_hidden(executor, tokens[:_LENGTH]), weights).items():
            print(f"  {counts.mean():6.1f} ({np.median(counts):3.0f}, {counts.max():4.0f})   {bound}")


def _hidden(executor: NativeExecutor, token_ids: Int32s) -> Array:
    batch = batch_of(token_ids, 1, 0, blocks_for(len(token_ids)), wanted="hidden")
    outputs = executor.run(replace(batch, hidden_rows=_ROWS[_ROWS < len(token_ids)].astype(np.int32)))
    assert outputs is not None
    return outputs.hidden.astype(np.float64)


def _counts(rows: Array, weights: Array) -> dict[str, NDArray[np.int64]]:
    """Of each bound, how many panels of each row have to be computed."""
    blocks = rows.reshape(len(rows), -1, _BLOCK)
    scales = np.abs(blocks).max(axis=2, keepdims=True) / 127
    rest = blocks - np.rint(blocks / scales) * scales
    rest_lengths = np.linalg.norm(rest, axis=2)
    weight_lengths = np.linalg.norm(weights.reshape(len(weights), -1, _BLOCK), axis=2)
    first_terms = (rows - rest.reshape(rows.shape)) @ weights.T
    doubts = {
        "one length": np.outer(np.linalg.norm(rest_lengths, axis=1), np.linalg.norm(weight_lengths, axis=1)),
        "blocks": rest_lengths @ weight_lengths.T,
    }
    greatest = weight_lengths.reshape(-1, _PANEL, weight_lengths.shape[1]).max(axis=1)
    panel_doubts = {
        "one length": np.outer(
            np.linalg.norm(rest_lengths, axis=1),
            np.linalg.norm(weight_lengths, axis=1).reshape(-1, _PANEL).max(axis=1),
        ),
        "blocks": rest_lengths @ greatest.T,
    }
    peaks = first_terms.reshape(len(rows), -1, _PANEL).max(axis=2)
    exact = (rows @ weights.T).reshape((*peaks.shape, _PANEL)).max(axis=2)
    best = np.take_along_axis(exact, peaks.argmax(axis=1)[:, None], axis=1)
    counts = {}
    for kind, doubt in panel_doubts.items():
        least = (peaks - doubt).max(axis=1, keepdims=True)
        counts[f"against what is surely reached, panels' {kind}"] = (peaks + doubt >= least).sum(axis=1)
    for kind, doubt in panel_doubts.items():
        counts[f"against the highest panel, panels' {kind}"] = (peaks + doubt >= best).sum(axis=1)
    for kind, doubt in doubts.items():
        reached = (first_terms + doubt).reshape((*exact.shape, _PANEL)).max(axis=2)
        counts[f"against the highest panel, every row's {kind}"] = (reached >= best).sum(axis=1)
    return counts


if __name__ == "__main__":
    main()
