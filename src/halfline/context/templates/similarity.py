"""Which task a text asks for, by the inner product of normalised vectors.

An embedding finds a template; it is never taken for one: what the model reads is always the template's own text. A
learned embedding is looked up in FAISS's flat index (the extra `semantic` brings both). Words and their pieces,
weighted by how few tasks they occur in, need no model and know no synonyms but those that a template lists.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
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
    """What turns a text into a vector."""

    def embed(self, text: str) -> NDArray[np.float32]:
        """float32 [dimensions], the same number for all texts; of any length."""


@dataclass(frozen=True, slots=True)
class Found:
    """`similarity` is the inner product, 1 for the same words."""

    task: str
    similarity: float


class TaskFinder:
    """Over the tasks it was made with. A task is as similar as the most similar thing that is said of it."""

    def __init__(self, tasks: Sequence[Task], embedder: Embeds | None = None) -> None:
        """`embedder` None: words of the tasks themselves. With one, the extra `semantic` is needed."""
        said = [(task.name, text) for task in tasks for text in _said_of(task)]
        texts = [text.lower() for _, text in said]
        self._names = [name for name, _ in said]
        self._embedder = embedder or _Words(texts)
        self._products: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None = None
        if texts:
            rows = np.stack([_normalised(self._embedder.embed(text)) for text in texts])
            self._products = rows.__matmul__ if embedder is None else flat_index(rows)

    def find(self, text: str) -> list[Found]:
        """All tasks, the most similar first; equals by name."""
        if self._products is None:
            return []
        products = self._products(_normalised(self._embedder.embed(text[:_MAX_CHARACTERS].lower())))
        best: dict[str, float] = {}
        for name, product in zip(self._names, products, strict=True):
            best[name] = max(best.get(name, -1.0), float(product))
        return sorted((Found(*each) for each in best.items()), key=lambda each: (-each.similarity, each.task))


def flat_index(rows: NDArray[np.float32]) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """The inner products of a vector with each of the rows, float32 [rows, dimensions], by FAISS."""
    import faiss  # an optional dependency

    faiss.omp_set_num_threads(1)  # the cores belong to the model
    index = faiss.IndexFlatIP(rows.shape[1])
    index.add(rows)

    def products(vector: NDArray[np.float32]) -> NDArray[np.float32]:
        found, positions = index.search(vector[np.newaxis], len(rows))
        by_row = np.empty(len(rows), np.float32)
        by_row[positions[0]] = found[0]
        return by_row

    return products


class _Words:
    """Words, and pieces of three characters of them, for inflections and slips of the pen. What no task says of itself
    counts too, in a column of its own: a text that says much else is less similar.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        num_texts = Counter(term for text in texts for term in _terms(text))
        self._columns = {term: column for column, term in enumerate(sorted(num_texts))}
        self._weights = {term: math.log((1 + len(texts)) / (1 + n)) + 1 for term, n in num_texts.items()}
        self._unknown = math.log(1 + len(texts)) + 1

    def embed(self, text: str) -> NDArray[np.float32]:
        row = np.zeros(len(self._columns) + 1, np.float32)
        elsewhere = 0.0
        for term, count in _terms(text).items():
            if term in self._columns:
                row[self._columns[term]] = count * self._weights[term]
            else:
                elsewhere += (count * self._unknown) ** 2
        row[-1] = math.sqrt(elsewhere)
        return row


def _said_of(task: Task) -> list[str]:
    texts = [task.name.replace("-", " ")]
    for template in task.versions.values():
        texts += [template.summary, *template.asked_as]
    return list(dict.fromkeys(texts))


def _terms(text: str) -> dict[str, float]:
    """How much each counts: the pieces of a word together 1, as lengths add up, and the word as such a little."""
    terms: defaultdict[str, float] = defaultdict(float)
    for word in _WORD.findall(text):
        if word in _STOP_WORDS:
            continue
        terms[word] += _WHOLE_WORD
        framed = f"^{word}$"
        pieces = [framed[start : start + _PIECE] for start in range(len(framed) - _PIECE + 1)]
        for piece in pieces:
            terms[f"/{piece}"] += 1 / math.sqrt(len(pieces))
    return terms


def _normalised(row: NDArray[np.float32]) -> NDArray[np.float32]:
    """A row of zeros stays one: it is similar to nothing."""
    length = float(np.linalg.norm(row))
    return row if length == 0.0 else (row / np.float32(length)).astype(np.float32)
