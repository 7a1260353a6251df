"""Answers that the model does not believe in are not shown, and not computed to their end."""

import math
from dataclasses import dataclass

import pytest

from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.postprocessing import postprocessing
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.sampling.reader import Piece
from halfline.sampling.sampler import Scored


class Letters:
    def push(self, token_id: int) -> str:
        return chr(token_id)

    def finish(self) -> str:
        return ""


@dataclass
class Told:
    answer: Piece
    num_tokens: int


def told(minimum: float, probabilities: list[float], text: str = "abcdefgh") -> Told:
    request = CompletionRequest(
        id="x",
        prompt=Document("x = ", ""),
        params=SamplingParams(),
        max_tokens=9,
        min_confidence=minimum,
    )
    reader = postprocessing(request, PipelineOptions()).reader(Letters())
    answer = Piece()
    for number, (letter, probability) in enumerate(zip(text, probabilities, strict=False), 1):
        answer += reader.push(Scored(ord(letter), math.log(probability)))
        if reader.stopped:
            return Told(answer, number)
    return Told(answer + reader.finish(), len(probabilities))


def test_the_first_four_tokens_decide() -> None:
    shown = told(0.5, [0.9, 0.5, 0.5, 0.5, 0.01, 0.01])
    assert shown.answer.text == "abcdef"
    assert shown.answer.confidence == pytest.approx((0.9 * 0.125) ** 0.25)


def test_an_answer_below_the_threshold_ends_at_once_and_shows_nothing() -> None:
    hidden = told(0.5, [0.9, 0.1, 0.1, 0.1, 0.99, 0.99])
    assert (hidden.answer.text, hidden.num_tokens) == ("", 4)
    assert [(cut.rule, cut.num_characters) for cut in hidden.answer.cuts] == [("min_confidence", 4)]


@pytest.mark.parametrize(("probabilities", "text"), [([0.6, 0.6], "ab"), ([0.4, 0.4], "")])
def test_a_short_answer_is_judged_by_what_there_is(probabilities: list[float], text: str) -> None:
    assert told(0.5, probabilities).answer.text == text


def test_an_answer_of_nothing_is_as_it_is() -> None:
    nothing = told(0.5, [])
    assert (nothing.answer.text, nothing.answer.confidence) == ("", None)


def test_log_probabilities_are_asked_for_only_where_they_are_needed() -> None:
    params = SamplingParams()

    def asked(minimum: float | None, options: PipelineOptions) -> int | None:
        request = CompletionRequest(id="x", prompt="x", params=params, max_tokens=1, min_confidence=minimum)
        return postprocessing(request, options).params(params).logprobs

    assert asked(None, PipelineOptions()) is None
    assert asked(0.1, PipelineOptions()) == 0
    assert asked(None, PipelineOptions(min_confidence=0.1)) == 0
    assert asked(0.0, PipelineOptions(min_confidence=0.1)) is None


def test_the_request_decides_about_post_processing_else_the_server() -> None:
    def trims(wanted: bool | None, server: bool) -> bool:
        request = CompletionRequest(
            id="x", prompt=Document("f(", ")"), params=SamplingParams(), max_tokens=1, postprocess=wanted
        )
        return postprocessing(request, PipelineOptions(postprocess=server)).around is not None

    assert [trims(None, True), trims(None, False), trims(True, False), trims(False, True)] == [
        True,
        False,
        True,
        False,
    ]
