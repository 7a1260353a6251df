"""Which task a text asks for, by the inner product of normalised vectors.

An embedding finds a template; it is never taken for one: what the model reads is always the template's own text.
`Embeds` is the seam for a learned embedding. Words and their pieces, weighted by how few tasks they occur in, need no
model and know no synonyms but those that a template lists (`asked_as`).
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from halfline.context.templates.library import Task

_WORD = re.compile(r"[^\W_]+")
_PIECE = 3
_WHOLE_WORD = 0.3
_MAX_CHARACTERS = 4096  # of a question; a task is asked for in its first words
_STOP_WORDS = frozenset(
    (
        *(
            "a",
            "an",
            "and",
            "as",
            "at",
            "be",
            "can",
            "for",
            "from",
            "give",
            "i",
            "in",
            "into",
            "is",
            "it",
            "me",
        ),
        *("my", "of", "on", "or", "please", "some", "that", "the", "this", "to", "us", "with", "you"),
    )
)


class Embeds(Protocol):
    """What turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row per text, of any length but none; all of one width."""


@dataclass(frozen=True, slots=True)
class Found:
    """`similarity` is the inner product, 1 for the same words."""

    task: str
    similarity: float


class TaskFinder:
    """Over the tasks it was made with. A task is as similar as the most similar thing that is said of it."""

    def __init__(self, tasks: Sequence[Task], embedder: Embeds | None = None) -> None:
        """`embedder` None: words of the tasks themselves."""
        said = [(task.name, text) for task in tasks for text in _said_of(task)]
        texts = [text for _, text in said]
        self._names = [name for name, _ in said]
        self._embedder = embedder or _Words(texts)
        self._rows = _normalised(self._embedder.embed(texts)) if texts else np.zeros((0, 0), np.float32)

    def find(self, text: str) -> list[Found]:
        """All tasks, the most similar first; equals by name."""
        if not self._names:
            return []
        products = self._rows @ _normalised(self._embedder.embed([text[:_MAX_CHARACTERS]]))[0]
        best: dict[str, float] = {}
        for name, product in zip(self._names, products, strict=True):
            best[name] = max(best.get(name, -1.0), float(product))
        return sorted((Found(*each) for each in best.items()), key=lambda each: (-each.similarity, each.task))


class _Words:
    """Words, and pieces of three characters of them, for inflections and slips of the pen. What no task says of itself
    counts too, in a column of its own: a text that says much else is less similar.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        num_texts = Counter(term for text in texts for term in _terms(text))
        self._columns = {term: column for column, term in enumerate(sorted(num_texts))}
        self._weights = {term: math.log((1 + len(texts)) / (1 + n)) + 1 for term, n in num_texts.items()}
        self._unknown = math.log(1 + len(texts)) + 1

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), len(self._columns) + 1), np.float32)
        for row, text in zip(rows, texts, strict=True):
            elsewhere = 0.0
            for term, count in _terms(text).items():
                if term in self._columns:
                    row[self._columns[term]] = count * self._weights[term]
                else:
                    elsewhere += (count * self._unknown) ** 2
            row[-1] = math.sqrt(elsewhere)
        return rows


def _said_of(task: Task) -> list[str]:
    texts = [task.name.replace("-", " ")]
    for template in task.versions.values():
        texts += [template.summary, *template.asked_as]
    return list(dict.fromkeys(texts))


def _terms(text: str) -> dict[str, float]:
    """How much each counts: the pieces of a word together 1, as lengths add up, and the word as such a little."""
    terms: defaultdict[str, float] = defaultdict(float)
    for word in _WORD.findall(text.lower()):
        if word in _STOP_WORDS:
            continue
        terms[word] += _WHOLE_WORD
        framed = f"^{word}$"
        pieces = [framed[start : start + _PIECE] for start in range(len(framed) - _PIECE + 1)]
        for piece in pieces:
            terms[f"/{piece}"] += 1 / math.sqrt(len(pieces))
    return terms


def _normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """A row of zeros stays one: it is similar to nothing."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    result: NDArray[np.float32] = (rows / np.where(lengths == 0.0, 1.0, lengths)).astype(np.float32)
    return result
