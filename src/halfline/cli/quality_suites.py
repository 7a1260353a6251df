"""Suites by name, as tasks, with what a result has to say about them."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from halfline.errors import BadSettings
from halfline.quality.infilling.suites import Task
from halfline.quality.suites.own import repository_tasks, text_tasks
from halfline.quality.suites.published import SOURCES, checked_file, published_tasks
from halfline.quality.suites.spread import spread
from halfline.quality.texts import default_texts

SUITE_NAMES = (*SOURCES, "texts")

_TRACE_STEP = 97  # transactions between two tasks: no two of the same line
_TRACE_BLOCK = 500  # transactions that count as one place: what is typed together is alike


@dataclass(frozen=True, slots=True)
class Suites:
    """All tasks in order; `about` says of each suite how many there are, under which licence and which ones."""

    tasks: Sequence[Task]
    about: dict[str, object]


def load_suites(
    names: Sequence[str], data: Path, *, limit: int | None, seed: int, repository: Path | None = None
) -> Suites:
    """`limit` tasks of each, evenly spread. Raises BadSettings for what is unknown, not there or not as published."""
    tasks: list[Task] = []
    about: dict[str, object] = {}
    for name in names:
        try:
            found = _named(name, data, limit, seed)
        except (OSError, ValueError) as error:
            raise BadSettings(f"the suite {name}: {error}") from error
        licence = SOURCES[name].licence if name in SOURCES else "MIT AND CC-BY-4.0"
        about[name] = {"licence": licence, **_facts(found)}
        tasks += found
    if repository is not None:
        try:
            found = spread(repository_tasks(repository, seed), limit)
        except (OSError, ValueError) as error:
            raise BadSettings(f"--repo: {error}") from error
        about["your repository"] = _facts(found)
        tasks += found
    if not tasks:
        raise BadSettings("there is nothing to compare on: name a --suite or a --repo")
    doubles = len(tasks) - len({task.id for task in tasks})
    if doubles:
        raise BadSettings(f"{doubles} tasks are there twice: name each suite once")
    return Suites(tasks, about)


def _named(name: str, data: Path, limit: int | None, seed: int) -> list[Task]:
    if name == "texts":
        return spread(text_tasks(default_texts(), seed), limit)
    if name not in SOURCES:
        raise ValueError(f"there is none by this name; there are {', '.join(SUITE_NAMES)}")
    if name == "trace":
        return spread(list(_trace_tasks(checked_file(data, name))), limit)
    return published_tasks(data, name, limit)


def _trace_tasks(file: Path) -> Iterator[Task]:
    """At every so many changes the document then, and the rest of the line that was typed next."""
    from halfline.bench.replay.trace import applied, load  # start-up time: this and the next
    from halfline.bench.replay.typed_next import MOST_TRANSACTIONS, typed_next

    trace = load(file, "rustcode.rs")
    transactions = trace.transactions
    text = trace.start
    for number, transaction in enumerate(transactions):
        text = applied(text, transaction)
        if number % _TRACE_STEP:
            continue
        cursor = transaction[-1].place + len(transaction[-1].inserted)
        later = transactions[number + 1 : number + 1 + MOST_TRANSACTIONS]
        wanted = typed_next(cursor, later).partition("\n")[0].rstrip()
        if wanted.strip():
            yield Task(
                id=f"rustcode:{number}",
                problem=f"rustcode:{number // _TRACE_BLOCK}",
                path=trace.path,
                prefix=text[:cursor],
                suffix=text[cursor:],
                wanted=wanted,
                single_line=True,
                checks=None,
            )


def _facts(tasks: Sequence[Task]) -> dict[str, object]:
    digest = hashlib.sha256()
    for task in tasks:
        for text in (task.id, task.prefix, task.wanted, task.suffix):
            digest.update(f"{len(text)} {text}".encode(errors="surrogatepass"))
    return {"tasks": len(tasks), "sha256": digest.hexdigest()}
