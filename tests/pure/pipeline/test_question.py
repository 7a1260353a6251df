"""Two questions have one digest only where the answer is the same."""

from dataclasses import fields, replace
from itertools import combinations

from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.languages import PYTHON, RUST
from halfline.pipeline.postprocess.postprocessing import postprocessing
from halfline.pipeline.postprocess.surroundings import Surroundings
from halfline.pipeline.prompt import Prompt
from halfline.pipeline.question import question_digest
from halfline.request import Bounds, CompletionRequest, Document, SamplingParams, Schedule

REQUEST = CompletionRequest(
    id="r", prompt=Document("x = ", "", "a.py"), params=SamplingParams(), max_tokens=8
)
PROMPT = Prompt(
    token_ids=(1, 2), max_new_tokens=8, stop_token_ids=frozenset({0}), text="x = ", places=range(2)
)


def test_whatever_is_different_around_the_cursor_the_digest_is_another() -> None:
    around = Surroundings(
        language=PYTHON, line="ab", rest="c", above="d", below="e", inside=None, newline=None
    )
    others = [
        replace(around, language=RUST),
        replace(around, line="a", rest="bc"),
        replace(around, above="de", below=""),
        replace(around, inside="e"),
        replace(around, newline="e"),
        *(replace(around, **{each.name: "\ud800"}) for each in fields(around) if each.name != "language"),
    ]
    trims = postprocessing(REQUEST, PipelineOptions())
    digests = [question_digest(REQUEST, PROMPT, replace(trims, around=each)) for each in (around, *others)]
    digests.append(question_digest(REQUEST, PROMPT, replace(trims, around=None)))
    assert None not in digests
    assert all(one != other for one, other in combinations(digests, 2))


def test_whatever_else_decides_an_answer_decides_its_digest() -> None:
    options = PipelineOptions()
    plain = replace(REQUEST, postprocess=False)  # nothing around the cursor counts
    drawn = replace(plain, params=SamplingParams(temperature=0.5, seed=1))
    params = [
        SamplingParams(logit_bias={1: 1.0}),
        SamplingParams(logit_bias={1: 2.0}),
        SamplingParams(logit_bias={2: 1.0}),
        SamplingParams(logprobs=0),
        SamplingParams(logprobs=1),
        SamplingParams(stop=("a",)),
        SamplingParams(stop=("a", "b")),
        SamplingParams(repetition_penalty=1.1),
        SamplingParams(presence_penalty=0.1),
        SamplingParams(frequency_penalty=0.1),
        SamplingParams(temperature=0.5, seed=2),
        SamplingParams(temperature=0.6, seed=1),
        SamplingParams(temperature=0.5, seed=1, top_k=3),
        SamplingParams(temperature=0.5, seed=1, top_p=0.5),
        SamplingParams(temperature=0.5, seed=1, min_p=0.5),
        SamplingParams(seed=1, schedule=Schedule()),
        SamplingParams(seed=1, schedule=Schedule(by="entropy")),
    ]
    requests = [plain, drawn, *(replace(plain, params=each) for each in params)]
    requests += [
        replace(plain, tenant="another"),
        replace(plain, num_choices=2),
        replace(plain, echo=True),
        replace(plain, min_confidence=0.5),
        replace(plain, bounds=Bounds(min_indent=4)),
    ]
    prompts = [
        replace(PROMPT, token_ids=(1, 3)),
        replace(PROMPT, token_ids=(1, 2, 0)),
        replace(PROMPT, max_new_tokens=7),
        replace(PROMPT, stop_token_ids=frozenset({0, 5})),
        replace(PROMPT, forced_text="d"),
        replace(PROMPT, forced_text="de"),
    ]
    asked = [(each, PROMPT) for each in requests] + [(plain, each) for each in prompts]
    echoed = replace(plain, echo=True)
    asked.append((echoed, replace(PROMPT, text="x =")))
    digests = [question_digest(each, prompt, postprocessing(each, options)) for each, prompt in asked]
    assert None not in digests
    assert all(one != other for one, other in combinations(digests, 2))


def test_what_is_drawn_anew_or_timed_has_no_digest() -> None:
    for each in (
        replace(REQUEST, params=SamplingParams(temperature=0.5)),
        replace(REQUEST, params=SamplingParams(schedule=Schedule())),
        replace(REQUEST, caching="none"),
        replace(REQUEST, max_tokens=0),
        replace(REQUEST, echo=True, params=SamplingParams(logprobs=0)),
        replace(REQUEST, bounds=Bounds(line_time_ms=5)),
    ):
        assert question_digest(each, PROMPT, postprocessing(each, PipelineOptions())) is None
