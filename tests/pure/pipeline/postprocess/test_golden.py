"""What editors are shown, case by case, in eight languages: tests/data/postprocess.

    == What the case shows
    --- document
    foo(█)
    --- model
    a)
    --- shown
    a
    --- cuts
    suffix_overlap 1

`→` stands for a tab, `␍` for a carriage return; the line end before a line of dashes is none of the text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.pipeline.options import PipelineOptions
from halfline.pipeline.postprocess.postprocessing import postprocessing
from halfline.request import CompletionRequest, Document, SamplingParams
from halfline.sampling.reader import Piece, Reader
from halfline.sampling.sampler import Scored

EXTENSIONS = {
    "python": "py",
    "typescript": "ts",
    "rust": "rs",
    "go": "go",
    "java": "java",
    "cpp": "cpp",
    "yaml": "yaml",
    "sql": "sql",
}


@dataclass(frozen=True)
class Case:
    language: str
    name: str
    document: Document
    model: str
    shown: str | None = None
    cuts: str | None = None


class Pieces:
    """A detokenizer whose n-th token is the n-th piece."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces

    def push(self, token_id: int) -> str:
        return self._pieces[token_id]

    def finish(self) -> str:
        return ""


def cases(path: Path) -> list[Case]:
    found = []
    for text in re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        name, rest = text.split("\n", 1)
        parts = re.split(r"^--- (\w+)\n", rest, flags=re.MULTILINE)[1:]
        sections = {
            title: body.removesuffix("\n").replace("→", "\t").replace("␍", "\r")
            for title, body in zip(parts[::2], parts[1::2], strict=True)
        }
        prefix, suffix = sections["document"].split("█")
        document = Document(prefix, suffix, f"src/name.{EXTENSIONS[path.stem]}")
        model, shown, cuts = (sections.get(key) for key in ("model", "shown", "cuts"))
        assert model is not None
        found.append(Case(path.stem, name, document, model, shown, cuts))
    return found


def reader(document: Document, pieces: Sequence[str]) -> Reader:
    request = CompletionRequest(id="x", prompt=document, params=SamplingParams(), max_tokens=1)
    return postprocessing(request, PipelineOptions()).reader(Pieces(pieces))


def run(case: Case) -> Piece:
    """The whole answer, read letter by letter."""
    answer = Piece()
    reads = reader(case.document, case.model)
    for position in range(len(case.model)):
        answer += reads.push(Scored(position))
        if reads.stopped:
            return answer
    return answer + reads.finish()


def cuts_of(piece: Piece) -> str:
    return "\n".join(f"{cut.rule} {cut.num_characters}" for cut in piece.cuts)


DATA = Path(__file__).parents[3] / "data" / "postprocess"
CASES = [case for path in sorted(DATA.glob("*.txt")) for case in cases(path)]


def test_every_language_has_its_cases() -> None:
    assert {case.language for case in CASES} == EXTENSIONS.keys()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.language}: {case.name}")
def test_the_editor_is_shown_what_fits_at_the_cursor(case: Case) -> None:
    answer = run(case)
    assert (answer.text, cuts_of(answer)) == (case.shown, case.cuts)


@given(st.data())
def test_the_pieces_in_which_an_answer_comes_do_not_matter(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(CASES))
    places = data.draw(st.lists(st.integers(0, len(case.model)), max_size=8))
    stops = [*sorted(places), len(case.model)]
    pieces = [case.model[start:stop] for start, stop in pairwise([0, *stops])]
    reads = reader(case.document, pieces)
    answer = Piece()
    for position in range(len(pieces)):
        answer += reads.push(Scored(position))
        if reads.stopped:
            break
    else:
        answer += reads.finish()
    assert answer.text == case.shown
