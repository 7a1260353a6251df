"""quality.toml: which comparisons a release has to stand, on how many tasks, and how much each may lose.

[margins.lossless]                      limits by metric (quality/margins.py)
mean_kl = 1e-6

[arms.drafts]
about = "Guessed tokens change no answer"
baseline = "engine.speculation=off"     configurations (quality/configuration.py)
candidate = "engine.speculation=auto"
suites = ["texts"]
n = 40                                  tasks of each suite, evenly spread
margins = "lossless"
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfline.errors import BadSettings
from halfline.quality.margins import Margins

OURS = Path(__file__).parent / "quality.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateArm:
    name: str
    about: str
    baseline: str
    candidate: str
    suites: tuple[str, ...]
    n: int
    margins: Margins
    required: bool


@dataclass(frozen=True, slots=True)
class GateFile:
    arms: Mapping[str, GateArm]
    margins: Mapping[str, Margins]

    def arm(self, name: str) -> GateArm:
        """Raises BadSettings."""
        if name not in self.arms:
            raise BadSettings(f"there is no arm {name!r}; there are {', '.join(self.arms)}")
        return self.arms[name]

    def margins_named(self, name: str) -> Margins:
        """Raises BadSettings."""
        if name not in self.margins:
            raise BadSettings(f"there are no margins {name!r}; there are {', '.join(self.margins)}")
        return self.margins[name]


def read_gate_file(path: Path = OURS) -> GateFile:
    """Raises BadSettings for a file that cannot be read, an unknown name, a missing one or a wrong type."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadSettings(f"the gate file {path} cannot be read: {error}") from error
    try:
        if unknown := values.keys() - {"arms", "margins"}:
            raise BadSettings(f"unknown table {min(unknown)!r}")
        margins = {name: Margins(limits) for name, limits in _tables(values, "margins")}
        for name in (name for name, each in margins.items() if not each.limits):
            raise BadSettings(f"margins.{name} sets no limit, so that everything would pass")
        file = GateFile({}, margins)
        return GateFile({name: _arm(name, table, file) for name, table in _tables(values, "arms")}, margins)
    except BadSettings as error:
        raise BadSettings(f"{path}: {error}") from error


def _tables(values: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    tables = values.get(kind, {})
    if not isinstance(tables, Mapping):
        raise BadSettings(f"{kind} is {tables!r}, it must be a table")
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            raise BadSettings(f"{kind}.{name} is {table!r}, it must be a table")
        yield name, table


def _arm(name: str, table: Mapping[str, Any], file: GateFile) -> GateArm:
    kinds: Mapping[str, type] = {
        "about": str,
        "baseline": str,
        "candidate": str,
        "suites": list,
        "n": int,
        "margins": str,
        "required": bool,
    }
    for key in sorted(table.keys() ^ kinds.keys()):
        raise BadSettings(f"arms.{name}: {key!r} is {'unknown' if key in table else 'missing'}")
    for key, kind in kinds.items():
        if not isinstance(table[key], kind) or (kind is int and isinstance(table[key], bool)):
            raise BadSettings(f"arms.{name}.{key} is {table[key]!r}, it must be a {kind.__name__}")
    if table["n"] < 1 or not table["suites"] or not all(isinstance(each, str) for each in table["suites"]):
        raise BadSettings(f"arms.{name} needs at least one suite, by name, and one task")
    return GateArm(
        name=name,
        about=table["about"],
        baseline=table["baseline"],
        candidate=table["candidate"],
        suites=tuple(table["suites"]),
        n=table["n"],
        margins=file.margins_named(table["margins"]),
        required=table["required"],
    )
