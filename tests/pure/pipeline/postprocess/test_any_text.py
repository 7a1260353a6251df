"""Whatever stands in a file and whatever a model writes: no rule fails, looks at how text was cut, or invents any."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from halfline.pipeline.postprocess.postprocessing import editor_filters, editor_rewrites
from halfline.pipeline.postprocess.surroundings import surroundings
from halfline.request import Document
from halfline.sampling.reader import Piece, Reader
from halfline.sampling.sampler import Scored

NAMES = [None, "a.py", "a.ts", "a.rs", "a.go", "a.java", "a.cpp", "a.yaml", "a.sql", "a.sh", "a.md", "a.rb"]

_WORDS = st.sampled_from(
    [
        *["a", "b ", "else", "x = 1", "\n", "\n", "\r\n", "\n\n", "    ", "\t", "  ", "(", ")", "{", "}"],
        *["[", "]", '"', "'", "`", '"""', "#", "//", "/*", "*/", "--", ":", ";", ",", "- ", "\\", "@"],
        *["é", "🙂", "\u2028"],
    ]
)
TEXTS = st.lists(_WORDS, max_size=24).map("".join)
DOCUMENTS = st.builds(Document, TEXTS, TEXTS, st.sampled_from(NAMES))


class Pieces:
    """A detokenizer whose n-th token is the n-th piece."""

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces

    def push(self, token_id: int) -> str:
        return self._pieces[token_id]

    def finish(self) -> str:
        return ""


def read(document: Document, pieces: list[str], rewrites: bool = True) -> Piece:
    around = surroundings(document)
    reader = Reader(
        Pieces(pieces),
        editor_filters(around),
        rewrites=editor_rewrites(around) if rewrites else (),
    )
    answer = Piece()
    for position in range(len(pieces)):
        answer += reader.push(Scored(position))
        if reader.stopped:
            return answer
    return answer + reader.finish()


@given(DOCUMENTS, TEXTS, st.lists(st.integers(0, 80), max_size=8))
def test_the_pieces_in_which_an_answer_comes_do_not_matter(
    document: Document, text: str, cuts: list[int]
) -> None:
    stops = [*sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:stop] for start, stop in pairwise([0, *stops])]
    assert read(document, pieces).text == read(document, [text]).text == read(document, list(text)).text


@given(DOCUMENTS, TEXTS)
def test_filters_only_cut(document: Document, text: str) -> None:
    answer = read(document, list(text), rewrites=False)
    assert text.startswith(answer.text)
    known = sum(cut.num_characters for cut in answer.cuts)
    assert len(answer.text) + known <= len(text)


@given(DOCUMENTS, TEXTS)
def test_rewrites_change_nothing_but_line_ends_and_indentation(document: Document, text: str) -> None:
    plain = read(document, list(text), rewrites=False).text
    written = read(document, list(text)).text
    assert "".join(written.split()) == "".join(plain.split())
    assert written.count("\n") == plain.count("\n")


@given(DOCUMENTS, st.lists(st.integers(0, 9), max_size=30))
def test_every_token_begins_where_its_text_stands(document: Document, numbers: list[int]) -> None:
    pieces = [f"{number}{' ' * (number % 2)}" if number else "\n\t" for number in numbers]
    answer = read(document, pieces)
    for token, start in zip(answer.tokens, answer.starts, strict=True):
        digit = pieces[token.token_id][0]
        if digit.isdigit() and start < len(answer.text):
            assert answer.text[start] == digit
