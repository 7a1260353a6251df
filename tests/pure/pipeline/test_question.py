"""Two questions have one digest only where the answer is the same."""

from dataclasses import fields, replace
from itertools import combinations

from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.languages import PYTHON, RUST
from halfline.pipeline.postprocess.postprocessing import postprocessing
from halfline.pipeline.postprocess.surroundings import Surroundings
from halfline.pipeline.prompt import Prompt
from halfline.pipeline.question import question_digest
from halfline.request import CompletionRequest, Document, SamplingParams

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
