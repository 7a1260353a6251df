"""What of an answer an editor is shown, and what the receipt says of the rest."""

import pytest
from running_pipeline import request, running_pipeline
from scripted_executor import ScriptedExecutor

from halfline.request import Bounds, Document

pytestmark = pytest.mark.anyio

CALL = Document("print(", ")\nrest()\n", "a.py")


def greeter() -> ScriptedExecutor:
    """Goes on with what stands behind the cursor already, and further."""
    return ScriptedExecutor("'hi')\nmore()\n", len("print("))


async def test_an_editor_is_not_given_what_already_stands_behind_the_cursor() -> None:
    async with running_pipeline(greeter()) as (pipeline, _):
        completion = await pipeline.complete(request(CALL))
        choice = completion.choices[0]
        assert (choice.text, choice.finish_reason) == ("'hi'", "stop")
        assert completion.receipt.ledger["mode"] == "editor"
        assert completion.receipt.ledger["prefix_characters_left_out"] == 0


async def test_a_receipt_says_which_rules_cut_how_much_and_nothing_is_cut_for_who_wants_it_so() -> None:
    async with running_pipeline(greeter()) as (pipeline, _):
        trimmed = await pipeline.complete(request(CALL))
        assert trimmed.receipt.cut_characters == {"suffix_overlap": 2}
        assert trimmed.receipt.ended_by == ("suffix_overlap",)
        assert trimmed.receipt.confidence is None
        whole = await pipeline.complete(request(CALL, id="r2", postprocess=False))
        assert whole.choices[0].text == "'hi')\nmore()\n"
        assert (whole.receipt.cut_characters, whole.receipt.ended_by) == ({}, (None,))
        # A rule may end an answer of which nothing is kept back.
        timed = request(CALL, id="r3", postprocess=False, bounds=Bounds(line_time_ms=0))
        late = await pipeline.complete(timed)
        assert late.choices[0].text == "'hi')\n"
        assert (late.receipt.cut_characters, late.receipt.ended_by) == ({}, ("line_time",))


async def test_an_answer_that_the_model_does_not_believe_in_is_not_shown_and_not_computed_to_its_end() -> (
    None
):
    async with running_pipeline(greeter()) as (pipeline, _):
        shown = await pipeline.complete(request(CALL, min_confidence=1e-6))
        confidence = shown.receipt.confidence
        assert confidence is not None
        assert shown.choices[0].text == "'hi'"
        assert shown.choices[0].logprobs is None, "nobody asked to see them"
        hidden = await pipeline.complete(request(CALL, id="r2", min_confidence=confidence * 1.01))
        assert (hidden.choices[0].text, hidden.choices[0].finish_reason) == ("", "stop")
        assert hidden.receipt.confidence == confidence
        assert "min_confidence" in hidden.receipt.cut_characters
        again = await pipeline.complete(request(CALL, id="r3", min_confidence=confidence))
        assert again.choices[0].text == "'hi'"


async def test_an_editor_is_shown_nothing_of_a_character_that_the_limit_cuts_in_two() -> None:
    async with running_pipeline(ScriptedExecutor("'👩'", len("print("))) as (pipeline, _):
        shown = await pipeline.complete(request(CALL, max_tokens=3))
        assert (shown.choices[0].text, shown.choices[0].finish_reason) == ("'", "length")
        known = await pipeline.complete(request(CALL, id="r2", max_tokens=5))
        assert known.choices[0].text == "'👩"
        bare = await pipeline.complete(request(CALL, id="r3", max_tokens=3, postprocess=False))
        assert bare.choices[0].text == "'\ufffd"
