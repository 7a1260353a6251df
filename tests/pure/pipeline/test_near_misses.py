"""Questions that nearly are one that was answered. Whatever each tier knows of that one, what is answered is what is
computed where nothing is known: by an executor whose every answer depends on every token before it.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from beside import Beside, Everything, a_store, beside
from running_pipeline import running_pipeline
from scripted_executor import ScriptedExecutor

from halfline.cache.exact import ExactAnswers
from halfline.cache.fragments import Fragments
from halfline.cache.semantic import SemanticTier
from halfline.cache.syntax import SyntaxTier
from halfline.pipeline.options import PipelineOptions
from halfline.request import Completion, CompletionRequest, Document, SamplingParams

pytestmark = pytest.mark.anyio

BEFORE = "def f(a, b):\n    if a < b:\n        return g(a, b) + "
BEHIND = "\n\ny = 1\n"


def at(before: str = BEFORE, behind: str = BEHIND, path: str = "a.py", **changes: Any) -> CompletionRequest:
    base = CompletionRequest(
        id="r",
        prompt=Document(before, behind, path),
        params=SamplingParams(ignore_eos=True),
        max_tokens=3,
        postprocess=False,
    )
    return replace(base, **changes)


BASE = at()
RENAMED = "def f(x, y):\n    if x < y:\n        return g(x, y) + "
CODE = {
    "renamed": at(RENAMED),
    "function renamed": at(BEFORE.replace("def f", "def h")),
    "negated": at(BEFORE.replace("if a < b", "if not a < b")),
    "swapped arguments": at(BEFORE.replace("g(a, b)", "g(b, a)")),
    "swapped parameters": at(BEFORE.replace("f(a, b)", "f(b, a)")),
    "swapped operands": at(BEFORE.replace("a < b", "b < a")),
    "< to <=": at(BEFORE.replace("<", "<=")),
    "+ to -": at(BEFORE.replace("+", "-")),
    "a letter that looks alike": at(BEFORE.replace("a", "\N{CYRILLIC SMALL LETTER A}")),
}
BLANKS = {
    "changed indentation": at(BEFORE.replace("    ", "  ")),
    "tabs for spaces": at(BEFORE.replace("    ", "\t")),
    "CRLF for LF": at(BEFORE.replace("\n", "\r\n"), BEHIND.replace("\n", "\r\n")),
    "CR for LF": at(BEFORE.replace("\n", "\r")),
    "one more blank": at(BEFORE + " "),
    "one blank less": at(BEFORE[:-1]),
    "a blank that does not break": at(BEFORE[:-1] + "\N{NO-BREAK SPACE}"),
    "one more empty line": at(BEFORE.replace("b:\n", "b:\n\n")),
    "a blank behind a line": at(BEFORE.replace("b:\n", "b: \n")),
}
UNSEEN = {  # by a model that reads no farther than the cursor
    "another number behind": at(behind=BEHIND.replace("1", "2")),
    "nothing behind": at(behind=""),
    "another file, same text": at(path="b.py"),
    "a file of another language, same text": at(path="a.rs"),
}
ANOTHER_WISH = {
    "another stop string": at(params=SamplingParams(ignore_eos=True, stop=("b",))),
    "two stop strings, one of which is another's": at(
        params=SamplingParams(ignore_eos=True, stop=("b", "("))
    ),
    "another limit": at(max_tokens=2),
    "another end": at(params=SamplingParams()),
    "trimmed": at(postprocess=True),
    "raw": at(prompt=BEFORE),
}
ANOTHER_TENANT = {
    "another tenant": at(tenant="another"),
    "a tenant that looks alike": at(tenant="loc\N{CYRILLIC SMALL LETTER A}l"),
}
NEAR: Mapping[str, CompletionRequest] = CODE | BLANKS | UNSEEN | ANOTHER_WISH | ANOTHER_TENANT


async def test_the_questions_really_have_other_answers() -> None:
    async with beside() as asked:
        said = {name: (await asked.complete(each, name)).choices[0] for name, each in NEAR.items()}
        base = (await asked.complete(BASE, "base")).choices[0]
    assert all(said[name].text != base.text for name in CODE | BLANKS)
    assert all(said[name] == base for name in ANOTHER_TENANT)
    assert len({said[name].text for name in CODE | BLANKS}) == len(CODE | BLANKS)


async def test_exact_knows_none_of_them_but_those_that_the_model_cannot_tell_apart() -> None:
    async with beside(exact=ExactAnswers(a_store(), b"")) as asked:
        await asked.complete(BASE, "base")
        for name, near in NEAR.items():
            first = (await asked.complete(near, name)).receipt.tier
            assert (first == "exact") == (name in UNSEEN), name
            assert (await asked.complete(near, name)).receipt.tier == "exact"
        assert (await asked.complete(BASE, "base")).receipt.tier == "exact"


async def test_typing_what_was_predicted_at_one_place_finds_nothing_at_another() -> None:
    async with beside(typed=True) as asked:
        predicted = (await asked.complete(BASE, "base")).choices[0].text
        for name, near in (CODE | BLANKS | ANOTHER_TENANT).items():
            for typed in beginnings(predicted):
                here = await asked.complete(further(BASE, typed), f"base {typed!r}")
                assert here.receipt.tier in ("typed", "continued")
                there = await asked.complete(further(near, typed), f"{name} {typed!r}")
                assert there.receipt.tier != "typed", name
        for name, near in (UNSEEN | ANOTHER_WISH).items():
            for typed in beginnings(predicted):
                there = await asked.complete(further(near, typed), f"{name} {typed!r}")
                assert name == "raw" or there.receipt.tier in ("typed", "continued"), (
                    "its tokens are the same"
                )


async def test_typing_what_nearly_was_predicted_is_no_prediction() -> None:
    async with beside(typed=True) as asked:
        predicted = (await asked.complete(BASE, "base")).choices[0].text
        for typed in nearly(predicted):
            await asked.complete(further(BASE, typed), f"{typed!r} for {predicted!r}")


async def test_an_address_holds_the_answer_to_its_own_question() -> None:
    store = a_store()
    fragments = Fragments(store, b"", 1e12)
    async with beside(exact=ExactAnswers(store, b""), fragments=fragments) as asked:
        asks = {"base": BASE, **NEAR}
        answers = {name: await asked.complete(each, name) for name, each in asks.items()}
        addresses = {name: answer.receipt.address or "" for name, answer in answers.items()}
        for name, answer in answers.items():
            fragment = await fragments.get(asks[name].tenant, addresses[name])
            assert fragment is not None, name
            assert json.loads(fragment.body)["choices"][0]["text"] == answer.choices[0].text, name
        for name in ANOTHER_TENANT:
            assert await fragments.get(asks[name].tenant, addresses["base"]) is None
    assert len(set(addresses.values())) == len(asks) - len(UNSEEN)


async def test_what_syntax_trees_propose_is_computed_all_the_same() -> None:
    async with beside(guessing=[SyntaxTier(a_store())]) as asked:
        proposed = {name async for name in num_proposed(asked, NEAR)}
    assert {"renamed", "function renamed", "one more empty line", "a blank behind a line"} <= proposed
    different = CODE.keys() - {
        "renamed",
        "function renamed",
        "a letter that looks alike",
        "another number behind",
    }
    assert not proposed & (different - {"nothing behind"} | {"changed indentation"} | ANOTHER_TENANT.keys())


async def test_what_similar_text_proposes_is_computed_all_the_same() -> None:
    async with beside(guessing=[SemanticTier(Everything(), 0.9)]) as asked:
        proposed = {name async for name in num_proposed(asked, NEAR)}
    assert proposed == NEAR.keys() - ANOTHER_TENANT.keys()


async def num_proposed(asked: Beside, near: Mapping[str, CompletionRequest]) -> AsyncIterator[str]:
    """Those for which an answer was proposed, each asked behind the base."""
    (totals,) = asked.on.proposals.totals().values()
    await asked.complete(BASE, "base")
    for name, each in near.items():
        before = totals.proposed
        await asked.complete(each, name)
        if totals.proposed > before:
            yield name
        await asked.complete(BASE, name)


def beginnings(text: str) -> Iterator[str]:
    return (text[:length] for length in (0, 1, len(text)))


def nearly(text: str) -> Iterator[str]:
    """Beginnings of the text with something else at their end."""
    for length in range(len(text)):
        for other in (
            "x",
            " ",
            "\t",
            "\r\n",
            text[length].swapcase(),
            text[length] + " ",
            text[length + 1 :][:1],
        ):
            yield text[:length] + other


def further(asked: CompletionRequest, typed: str) -> CompletionRequest:
    if isinstance(asked.prompt, Document):
        return replace(asked, prompt=replace(asked.prompt, prefix=asked.prompt.prefix + typed))
    assert isinstance(asked.prompt, str)
    return replace(asked, prompt=asked.prompt + typed)


SAYS: Sequence[tuple[str, str, str, str]] = (
    ("renamed", RENAMED, "x * len(y)\n", "syntax"),
    ("negated", BEFORE.replace("if a < b", "if not a < b"), "b * len(a)\n", "miss"),
    ("swapped arguments", BEFORE.replace("g(a, b)", "g(b, a)"), "b * len(a)\n", "miss"),
    ("< to <=", BEFORE.replace("<", "<="), "a - len(b)\n", "miss"),
    ("changed indentation", BEFORE.replace("    ", "  "), "a + len(b)\n", "miss"),
    ("renamed, and the model says something else", RENAMED, "y * len(x)\n", "miss"),
    ("renamed, and the model says what it said", RENAMED, "a * len(b)\n", "miss"),
)


@pytest.mark.parametrize(("before", "says", "tier"), [row[1:] for row in SAYS], ids=[row[0] for row in SAYS])
async def test_a_renamed_function_is_answered_from_the_syntax_tree_and_no_other(
    before: str, says: str, tier: str
) -> None:
    guessing = [SyntaxTier(a_store())]

    async def answer(before: str, says: str) -> Completion:
        async with running_pipeline(
            ScriptedExecutor(says, len(before)), PipelineOptions(suggestions="off"), guessing=guessing
        ) as (pipeline, _):
            await pipeline.complete(at("x" * len(before)))  # from which it knows what a step takes
            return await pipeline.complete(at(before, "", max_tokens=len(says)))

    assert (await answer(BEFORE, "a * len(b)\n")).choices[0].text == "a * len(b)\n"
    found = await answer(before, says)
    assert (found.choices[0].text, found.receipt.tier) == (says, tier)
