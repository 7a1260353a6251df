"""Which sets there are, under which licence, and that their files are the ones that results were measured on.

single-line, random-span, safim-api   holes in files that stand alone (quality/infilling/suites.py)
repository, -later, -third            holes that begin with a name defined in another file of the package
trace                                 an editing trace: what its author typed next (its tasks are cut by the caller)
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from halfline.quality.infilling import suites as infilling
from halfline.quality.infilling.suites import SUITES as INFILLING
from halfline.quality.infilling.suites import Task
from halfline.quality.suites import repository
from halfline.quality.suites.spread import spread


@dataclass(frozen=True, slots=True)
class Source:
    """One file as it was published: its licence as an SPDX expression, and its sha256."""

    file: str
    licence: str
    sha256: str


SOURCES: Mapping[str, Source] = {
    "single-line": Source(
        "HumanEval-SingleLineInfilling.jsonl.gz",
        "MIT",
        "1277073e7ddce163ef68598c2bca777f688a53df99422f097e37362090f88e1f",
    ),
    "random-span": Source(
        "HumanEval-RandomSpanInfillingLight.jsonl.gz",
        "MIT",
        "1432250ecac0cb56e6f97f8faf0970419ef892a98fda7e1f5aa4c4b87209b760",
    ),
    "safim-api": Source(
        "safim_api.jsonl.gz", "MIT", "d275c220d391455b5f407dd9529568562ce717ef8bbc8d4f26c6d4a26fc7bff8"
    ),
    "repository": Source(
        "repository.json.gz",
        "MIT AND Apache-2.0",
        "2a3ad88ad96839d9a32980bb74fc6fcec32df5fa701cc2dae75cbc0bbc36401b",
    ),
    "repository-later": Source(
        "repository_later.json.gz",
        "MIT AND Apache-2.0",
        "700b95df64451951aba2344b64c14787baf2c2ea151ea88fcc0a84d0105b14d2",
    ),
    "repository-third": Source(
        "repository_third.json.gz",
        "MIT AND Apache-2.0",
        "31877c2bc8332ff6de8834b3208c62303a5aefd320f166b4a643dd491d5b9322",
    ),
    "trace": Source(
        "rustcode.json.gz", "CC-BY-4.0", "a13d472b5641dcad18d52882eff8c2d68ecbc27aa0f1e5a17eeb42f0f3130f38"
    ),
}


def checked_file(folder: Path, name: str) -> Path:
    """The set's file. Raises OSError, and ValueError when it is not the one that was published."""
    source = SOURCES[name]
    path = folder / source.file
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != source.sha256:
        raise ValueError(
            f"{source.file} is not as it was published: its sha256 is {found}, not {source.sha256}"
        )
    return path


def published_tasks(folder: Path, name: str, limit: int | None = None) -> list[Task]:
    """All tasks of a set but `trace`, or `limit` of them, evenly spread. Raises OSError or ValueError."""
    path = checked_file(folder, name)
    for suite in INFILLING:
        if suite == name:
            return infilling.load(folder, suite, limit)
    if not name.startswith("repository"):
        raise ValueError(f"{name} has no tasks of its own")
    return spread(repository.load(path), limit)
