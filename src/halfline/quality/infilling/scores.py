"""An answer beside what belonged into the hole."""

from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from halfline.quality.infilling.suites import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """`exact`: the same but for blanks at the end. `first_line`: likewise up to the first line end. `similarity`: 1 -
    edit distance over the longer one's length. `passed` None: nothing could be run.
    """

    exact: bool
    first_line: bool
    similarity: float
    passed: bool | None


def score(task: Task, answer: str, *, passed: bool | None) -> Score:
    shown, wanted = answer.rstrip(), task.wanted.rstrip()
    return Score(
        exact=shown == wanted,
        first_line=_first_line(shown) == _first_line(wanted),
        similarity=Levenshtein.normalized_similarity(shown, wanted),
        passed=passed,
    )


def _first_line(text: str) -> str:
    """The first that is not empty: a hole may begin with a line end."""
    return text.lstrip("\n").partition("\n")[0].rstrip()
