"""Bytes and effect of storing a prompt's embeddings in two precisions (A6).

    python -m bench.embedding_storage MODEL.gguf [--windows N] [--tokens N] [--write FILE.json]

Each window is an instruction followed by code. Its embeddings are stored and restored in each way, and the float64
reference reads them: KL(exact ‖ restored) of the next-token distributions over the code, teacher forced. The arm
"instruction int8" is the other way round, to see whether it matters which tokens are kept exact. Bytes stand beside
those of the same tokens' KV and of their ids. The last line is JSON.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from halfline.context.compression.embeddings import quantize_prompt_emb
from halfline.model.checkpoint import Checkpoint
from halfline.model.dequantize import dequantize
from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch
from halfline.model.load import open_checkpoint
from halfline.model.reference import ReferenceExecutor
from halfline.quality.texts import default_texts
from halfline.text.tokenizer import Tokenizer

_INSTRUCTION = "Complete the code at the cursor, in the style of the file. Write only what belongs there.\n"
Rows = NDArray[np.float32]


class GivenEmbeddings(ReferenceExecutor):
    """The reference, which takes token n to mean row n of `rows`."""

    def __init__(self, checkpoint: Checkpoint, num_blocks: int) -> None:
        super().__init__(checkpoint, num_blocks)
        self._weight("embed.weight")
        name = "head.weight" if "head.weight" in self._names else "embed.weight"
        self._weights["head.weight"] = self._weight(name)
        self._names = self._names | {"head.weight"}

    def logits(self, texts: Sequence[Rows], first: int) -> list[NDArray[np.float64]]:
        """Of each text, behind its rows [first, ...). All of one length; together, as weights are read once then."""
        self._weights["embed.weight"] = np.concatenate(texts)
        count = len(texts[0])
        num_blocks = -(-count // BLOCK_TOKENS)
        starts = np.arange(len(texts) + 1, dtype=np.int32) * count
        wanted = [np.arange(start + first, start + count) for start in starts[:-1]]
        outputs = self.run(
            Batch(
                token_ids=np.arange(starts[-1], dtype=np.int32),
                row_starts=starts,
                first_places=np.zeros(len(texts), np.int32),
                block_tables=np.arange(len(texts) * num_blocks, dtype=np.int32).reshape(
                    len(texts), num_blocks
                ),
                masks=(CAUSAL,) * len(texts),
                logit_rows=np.concatenate(wanted).astype(np.int32),
                hidden_rows=np.array([], np.int32),
            )
        )
        assert outputs is not None, "nobody sets the stop flag"
        return [np.asarray(each, np.float64) for each in np.split(outputs.logits, len(texts))]


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=160, help="of a window")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with closing(open_checkpoint(options.model)) as checkpoint:
        tokenizer, spec = Tokenizer(checkpoint.vocab), checkpoint.spec
        table = dequantize(checkpoint.tensor("embed.weight"))
        reference = GivenEmbeddings(checkpoint, 5 * -(-options.tokens // BLOCK_TOKENS))
        instruction = tokenizer.encode(_INSTRUCTION)
        count = len(instruction)
        arms: dict[str, Callable[[Rows], tuple[Rows, int]]] = {
            "float16": lambda rows: _stored(rows, len(rows)),
            "int8, instruction float16": lambda rows: _stored(rows, count),
            "int8": lambda rows: _stored(rows, 0),
            "instruction int8": lambda rows: _stored(rows, count, reverse=True),
        }
        kl: dict[str, list[float]] = {arm: [] for arm in arms}
        same: dict[str, list[bool]] = {arm: [] for arm in arms}
        error: dict[str, list[float]] = {arm: [] for arm in arms}
        sizes = dict.fromkeys(arms, 0)
        for number, path in enumerate(default_texts()[: options.windows]):
            code = tokenizer.encode(path.read_text("utf-8"), continues=True)
            token_ids = [*instruction, *code][: options.tokens]
            exact = table[token_ids].astype(np.float32)
            stored = {arm: store(exact) for arm, store in arms.items()}
            logits = reference.logits([exact, *(rows for rows, _ in stored.values())], count)
            true = log_softmax(logits[0])
            for (arm, (restored, num_bytes)), found in zip(stored.items(), logits[1:], strict=True):
                own = log_softmax(found)
                kl[arm] += (np.exp(true) * (true - own)).sum(axis=1).tolist()
                same[arm] += (true.argmax(axis=1) == own.argmax(axis=1)).tolist()
                error[arm].append(float(np.sqrt(((restored - exact) ** 2).mean() / (exact**2).mean())))
                sizes[arm] += num_bytes
            print(f"{number + 1} of {options.windows} windows", end="\r", flush=True)
    num_tokens = options.windows * options.tokens
    kv = 2 * spec.num_layers * spec.num_kv_heads * spec.head_dim * 2
    rows = [
        {
            "arm": arm,
            "bytes_per_token": sizes[arm] / num_tokens,
            "relative_error": float(np.mean(error[arm])),
            "mean_kl": float(np.mean(kl[arm])),
            "max_kl": float(np.max(kl[arm])),
            "top1": float(np.mean(same[arm])),
        }
        for arm in arms
    ]
    print(f"\n{len(kl['int8'])} positions; a token's KV has {kv} bytes in float16, its id 4")
    for row in rows:
        print(
            f"{row['arm']:28} {row['bytes_per_token']:7.1f} bytes  error {row['relative_error']:.5f}"
            f"  KL {row['mean_kl']:.2e} (max {row['max_kl']:.2e})  top-1 {row['top1']:.2%}"
        )
    result = {"positions": len(kl["int8"]), "kv_bytes": kv, "arms": rows}
    if options.write is not None:
        options.write.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


def _stored(rows: Rows, num_instruction: int, *, reverse: bool = False) -> tuple[Rows, int]:
    is_exact = (np.arange(len(rows)) < num_instruction) != reverse
    stored = quantize_prompt_emb(rows, is_exact)
    return stored.restore(), stored.num_bytes


if __name__ == "__main__":
    main()
