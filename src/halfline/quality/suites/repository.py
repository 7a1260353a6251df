"""The repository-level suite: holes that begin with a name which another file of the same package defines.

The packages were first released after the embedded model (SmolLM2, November 2024), so that it cannot have read them;
bench/repository_suite.py cut them out. Each task brings the file that defines its name as a part: what a good context
would show. Licences and days of the first release are in the data beside the files they belong to.
"""

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from halfline.quality.infilling.suites import Task
from halfline.request import Part


def load(file: Path) -> list[Task]:
    """Raises OSError or ValueError."""
    try:
        packages = json.loads(gzip.decompress(file.read_bytes()))["packages"]
        return [task for package in packages for task in _tasks(package)]
    except (EOFError, KeyError, TypeError, gzip.BadGzipFile) as error:
        raise ValueError(f"{file.name} is no repository suite: {error!r}") from error


def _tasks(package: Mapping[str, Any]) -> Iterator[Task]:
    for path, start, stop, name, defined_in in package["holes"]:
        text = package["files"][path]
        yield Task(
            id=f"{package['name']}/{path}:{start}:{name}",
            problem=f"{package['name']}/{path}",
            path=path,
            prefix=text[:start],
            suffix=text[stop:],
            wanted=text[start:stop],
            single_line=True,
            checks=None,
            parts=(Part(package["files"][defined_in], defined_in),),
        )
