"""Which order of a prompt's parts this very model infills best in: tried on holes whose right filling is known (C12).

A model card seldom says what a model was trained on, and a quantised or finetuned one may have forgotten. So each order
is given the same few holes, teacher forced: how likely are the right middles, healed cursor and all? Of those that are
about as good as the best the one is taken that costs least per keystroke (context/document_prompt.py).

Runs on an executor that nobody uses yet, from its first block on.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from halfline.context.document_prompt import DocumentPrompts, Room
from halfline.context.layout import LayoutSizes
from halfline.model.executor import BLOCK_TOKENS, CAUSAL, Batch, Executor
from halfline.request import Document
from halfline.sampling.sampler import score
from halfline.text.infill import InfillFormat, InfillOrder, usable_orders
from halfline.text.tokenizer import Tokenizer

BUDGET_S = 2.0
"""No further hole is begun after this; the first is always tried."""

MARGIN = 0.1
"""Nats per token by which an order may be worse than the best and still be taken for its speed."""

_BY_COST: tuple[InfillOrder, ...] = ("anchored", "spm", "suffix_first", "psm")
_SIZES = LayoutSizes(fresh_tokens=256, least_tokens=64, grown_tokens=256, max_tokens=256)
_ROOM = Room(num_tokens=512, num_suffix_tokens=128)


@dataclass(frozen=True, slots=True)
class Hole:
    before: str
    middle: str
    behind: str


@dataclass(frozen=True, slots=True)
class Trial:
    """`order` was found best; `logprobs` are each order's means over the right middles' tokens, in nats."""

    order: InfillOrder
    logprobs: Mapping[InfillOrder, float]
    num_holes: int


HOLES = (
    Hole(
        "def mean(values):\n    total = 0.0\n    for value in values:\n        total",
        " += value",
        "\n    return total / len(values)\n",
    ),
    Hole(
        'const names = ["ada", "grace"];\nfor (const name of ',
        "names",
        ") {\n  console.log(`hello ${name}`);\n}\n",
    ),
    Hole(
        "struct Point { x: f64, y: f64 }\n\nimpl Point {\n    fn norm(&self) -> f64 {\n        (self.x * self.x + ",
        "self.y * self.y",
        ").sqrt()\n    }\n}\n",
    ),
    Hole(
        "import json\n\n\ndef load(path):\n    with open(path) as ",
        "file:\n        return json.load(",
        'file)\n\n\ndef save(path, data):\n    with open(path, "w") as file:\n        json.dump(data, file)\n',
    ),
)


def try_orders(
    executor: Executor,
    tokenizer: Tokenizer,
    infill: InfillFormat,
    clock: Callable[[], float] = time.perf_counter,
) -> Trial:
    """Fill each hole in every order. Raises FloatingPointError when the model overflows."""
    orders = usable_orders(infill)
    builders = {order: DocumentPrompts(tokenizer, _SIZES, infill, order) for order in orders}
    sums = dict.fromkeys(orders, 0.0)
    num_holes = num_tokens = 0
    began = clock()
    for hole in HOLES:
        if num_holes and clock() - began > BUDGET_S:
            break
        for order, builder in builders.items():
            document = Document(hole.before, hole.behind)
            prompt = builder.build(document, None, _ROOM, heals=True, keeps=False)
            middle = tokenizer.encode(prompt.forced_text + hole.middle, continues=True)
            token_ids = [*tokenizer.encode(""), *prompt.token_ids, *middle]
            sums[order] += _logprob(executor, token_ids, len(middle))
        num_holes += 1
        num_tokens += len(middle)
    logprobs = {order: total / num_tokens for order, total in sums.items()}
    return Trial(_choose(logprobs), logprobs, num_holes)


def _choose(logprobs: Mapping[InfillOrder, float]) -> InfillOrder:
    """What is behind the cursor is left out only if the model is better off without."""
    best = max(logprobs.values())
    good = [order for order in _BY_COST if order in logprobs and logprobs[order] >= best - MARGIN]
    return good[0] if good else "prefix_only"


def _logprob(executor: Executor, token_ids: list[int], num_last: int) -> float:
    """The sum over the last tokens, each given all before it."""
    num_rows = len(token_ids) - 1
    outputs = executor.run(
        Batch(
            token_ids=np.array(token_ids[:-1], np.int32),
            row_starts=np.array([0, num_rows], np.int32),
            first_places=np.array([0], np.int32),
            block_tables=np.arange(-(-num_rows // BLOCK_TOKENS), dtype=np.int32)[None, :],
            masks=(CAUSAL,),
            logit_rows=np.arange(num_rows - num_last, num_rows, dtype=np.int32),
            hidden_rows=np.array([], np.int32),
        )
    )
    assert outputs is not None, "nobody sets the stop flag before anybody is served"
    scored = (
        score(row, token_id, 0) for row, token_id in zip(outputs.logits, token_ids[-num_last:], strict=True)
    )
    return sum(each.logprob or 0.0 for each in scored)
