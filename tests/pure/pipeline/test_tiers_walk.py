"""Somebody types, goes back, asks again and nearly again, of every kind: with all tiers on every answer is the one that
is computed where there are none, and so is what is fetched by its address.
"""

import json
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from beside import Everything, a_store, beside

from halfline.cache.exact import ExactAnswers
from halfline.cache.fragments import Fragments
from halfline.cache.semantic import SemanticTier
from halfline.cache.syntax import SyntaxTier
from halfline.request import Bounds, CompletionRequest, Document, Identity, SamplingParams

pytestmark = pytest.mark.anyio

PARAMS = [
    SamplingParams(),
    SamplingParams(ignore_eos=True),
    SamplingParams(stop=("\n",)),
    SamplingParams(stop=("b", "a.")),
    SamplingParams(logprobs=1),
    SamplingParams(temperature=1.0, seed=1),
    SamplingParams(temperature=1.0, seed=2),
    SamplingParams(repetition_penalty=1.2),
]
MOSTLY_ONE_FIELD = [
    *(
        "max_tokens",
        "params",
        "postprocess",
        "caching",
        "echo",
        "tenant",
        "num_choices",
        "min_confidence",
        "prompt",
    ),
    *["id"] * 4,  # nothing
]


class Typist:
    """`text` around a `cursor`, and the requests made lately."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._text = "def f(a):\n    "
        self._cursor = len(self._text)
        self._lately: list[CompletionRequest] = []

    def next(self, suggestion: str) -> CompletionRequest:
        """Another place, or one of the latest requests with a field changed, or none."""
        random = self._random
        self._edit(suggestion)
        asked = self._asked()
        if self._lately and random.random() < 0.6:
            field = random.choice(MOSTLY_ONE_FIELD)
            asked = replace(random.choice(self._lately), **{field: getattr(asked, field)})
        self._lately = [*self._lately, asked][-8:]
        return asked

    def _edit(self, suggestion: str) -> None:
        random, text, cursor = self._random, self._text, self._cursor
        roll = random.random()
        if roll < 0.7:
            typed = suggestion[: random.choice([1, 2, 8])] if roll < 0.5 else random.choice("abc(). \n\té")
            text, cursor = text[:cursor] + typed + text[cursor:], cursor + len(typed)
        elif roll < 0.85:
            count = min(cursor, random.randint(1, 4))
            text, cursor = text[: cursor - count] + text[cursor:], cursor - count
        elif roll < 0.95:
            text = text.replace(random.choice(["a", "    ", "\n"]), random.choice(["x", "\t", "\r\n"]))
        else:
            cursor = random.randint(0, len(text))
        left_out = max(0, len(text) - 150)
        self._text, self._cursor = text[left_out:], max(0, min(cursor, len(text)) - left_out)

    def _asked(self) -> CompletionRequest:
        random, before, behind = self._random, self._text[: self._cursor], self._text[self._cursor :]
        document = Document(before, behind, random.choice(["a.py", "b.py", "c.rs"]))
        return CompletionRequest(
            id="r",
            prompt=document if random.random() < 0.8 else before or "x",
            params=random.choice(PARAMS),
            max_tokens=random.choice([0, 1, 2, 3, 5, 8]),
            tenant=random.choice(["one", "one", "two"]),
            postprocess=random.random() < 0.5,
            echo=random.random() < 0.1,
            num_choices=random.choice([1, 1, 1, 2]),
            caching=random.choice(["refresh", "none", *["use"] * 8]),
            min_confidence=random.choice([None, None, 0.3]),
            identity=random.choice([None, Identity("one", "ann", "a.py")]),
            priority=random.choice(["interactive", "batch", "idle"]),
            bounds=random.choice([Bounds(), Bounds(min_indent=2)]),
        )


@pytest.mark.parametrize(
    ("seed", "count"),
    [
        (0, 80),
        *(
            pytest.param(seed, 1000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])
            for seed in range(1, 6)
        ),
    ],
)
async def test_whatever_is_asked_no_tier_changes_an_answer(seed: int, count: int) -> None:
    store, typist, seen, suggestion = a_store(), Typist(seed), Counter[str](), ""
    fragments, guessing = Fragments(store, b"", 1e12), [SyntaxTier(store), SemanticTier(Everything(), 0.9)]
    async with beside(
        typed=True, exact=ExactAnswers(store, b""), fragments=fragments, guessing=guessing
    ) as both:
        for number in range(count):
            asked = typist.next(suggestion)
            answer = await both.complete(asked, f"{number}: {asked}")
            seen[answer.receipt.tier] += 1
            suggestion = answer.choices[0].text
            if answer.receipt.address is not None:
                fragment = await fragments.get(asked.tenant, answer.receipt.address)
                assert fragment is not None
                told = json.loads(fragment.body)["choices"]
                assert [each["text"] for each in told] == [each.text for each in answer.choices]
                seen["http"] += 1
    store.check()
    assert min(seen["exact"], seen["http"]) > count // 10 and seen["typed"] + seen["continued"] > 0
