"""The shared infilling sets, as tasks: code with a hole, what belonged there, and tests where there are any.

single-line   HumanEval-Infilling: one line of a Python function is missing
random-span   the same with a random span, over lines and inside them ("light": one per problem)
safim-api     a call of a library in Python, C++, Java or C#; nothing to run

Files lie in a folder as they were published, gzipped; what is in them is MIT licensed, see the folder's README.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from halfline.quality.suites.spread import spread
from halfline.request import Part

Suite = Literal["single-line", "random-span", "safim-api"]
SUITES: tuple[Suite, ...] = get_args(Suite)

_FILES: Mapping[Suite, str] = {
    "single-line": "HumanEval-SingleLineInfilling.jsonl.gz",
    "random-span": "HumanEval-RandomSpanInfillingLight.jsonl.gz",
    "safim-api": "safim_api.jsonl.gz",
}
_HOLE = "{{completion}}"
_FILE_NAMES = {"python": "task.py", "cpp": "task.cpp", "java": "Task.java", "csharp": "Task.cs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`problem` names what several holes were cut from: their results are not independent. `path` is what an editor
    would call the file. `single_line`: a line end in the answer ends it. `checks`: Python that follows the program and
    fails when it is wrong; None: nothing can be run. `parts` are pieces of other files worth reading.
    """

    id: str
    problem: str
    path: str
    prefix: str
    suffix: str
    wanted: str
    single_line: bool
    checks: str | None
    parts: tuple[Part, ...] = ()

    def program(self, answer: str) -> str | None:
        """What to run; None when there is nothing to be told by running."""
        return None if self.checks is None else f"{self.prefix}{answer}{self.suffix}\n{self.checks}"


def load(folder: Path, suite: Suite, limit: int | None = None) -> list[Task]:
    """The suite's tasks, or `limit` of them, evenly spread. Raises OSError or ValueError for what cannot be read."""
    file = folder / _FILES[suite]
    try:
        lines = gzip.decompress(file.read_bytes()).decode().splitlines()
        tasks = list(_tasks(suite, (json.loads(line) for line in lines)))
    except (EOFError, KeyError, gzip.BadGzipFile, UnicodeDecodeError) as error:
        raise ValueError(f"{file.name} is not as it was published: {error!r}") from error
    return spread(tasks, limit)


def _tasks(suite: Suite, rows: Iterator[Mapping[str, Any]]) -> Iterator[Task]:
    for row in rows:
        if suite == "safim-api":
            prefix, _, suffix = row["eval_prompt"].partition(_HOLE)
            yield Task(
                id=row["task_id"],
                problem=row["task_id"],
                path=_FILE_NAMES[row["lang"]],
                prefix=prefix,
                suffix=suffix,
                wanted=row["ground_truth"],
                single_line=False,
                checks=None,
            )
        else:
            single_line = suite == "single-line"
            yield Task(
                id=row["task_id"],
                problem=row["task_id"].rpartition("/")[0],
                path=_FILE_NAMES["python"],
                prefix=row["prompt"],
                # Published with the line's end in the hole; an editor's cursor stands before it.
                suffix="\n" + row["suffix"] if single_line else row["suffix"],
                wanted=row["canonical_solution"].removesuffix("\n")
                if single_line
                else row["canonical_solution"],
                single_line=single_line,
                checks=f"{row['test']}\ncheck({row['entry_point']})\n",
            )
