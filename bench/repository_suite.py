"""Cuts the repository-level suite out of packages: holes whose first word is defined in another file of the package.

    python -m bench.repository_suite --out FILE.json.gz [--holes N] a_pkg-1.0-py3-none-any.whl:2025-02-07:MIT ...

Each wheel comes with the day of its *first* release, which has to lie after the model's training, and its licence. A
hole begins at a name that was imported from a sibling module, whose text is kept beside it, and ends with its line; of
each package there are about `--holes`. The same wheels give the same bytes.
"""

import argparse
import ast
import gzip
import hashlib
import json
import random
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path

_MIN_BYTES, _MAX_BYTES = 600, 40_000
_HOLES_PER_FILE = 3
_LICENCES = ("LICENSE", "LICENSE.md", "NOTICE")


@dataclass(frozen=True, slots=True)
class Use:
    """`name`, defined in the file `defined_in`, stands at characters [start, stop) up to its line's end."""

    path: str
    name: str
    defined_in: str
    start: int
    stop: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", nargs="+", metavar="WHEEL:DATE:LICENCE")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--holes", type=int, default=36, help="of each package")
    options = parser.parse_args()
    packages = [package(*words.rsplit(":", 2), options.holes) for words in options.wheels]
    data = json.dumps({"packages": packages}, indent=0, sort_keys=True).encode()
    options.out.write_bytes(gzip.compress(data, mtime=0))
    for each in packages:
        print(f"{each['name']} {each['version']}: {len(each['holes'])} holes in {len(each['files'])} files")
    print(
        f"{options.out.stat().st_size} bytes, sha256 {hashlib.sha256(options.out.read_bytes()).hexdigest()}"
    )


def package(wheel: str, first_release: str, licence: str, num_holes: int) -> dict[str, object]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        about = BytesParser().parsebytes(archive.read(metadata))
        licences = [archive.read(name).decode() for name in names if Path(name).name in _LICENCES]
        sources = {name: archive.read(name).decode() for name in names if name.endswith(".py")}
    small = {path: text for path, text in sources.items() if _MIN_BYTES <= len(text.encode()) <= _MAX_BYTES}
    chosen = sorted(
        _chosen(small, random.Random(about["Name"]), num_holes), key=lambda use: (use.path, use.start)
    )
    kept = {use.path for use in chosen} | {use.defined_in for use in chosen}
    return {
        "name": about["Name"],
        "version": about["Version"],
        "first_release": first_release,
        "licence": licence,
        "licence_text": "\n".join(licences),
        "wheel_sha256": hashlib.sha256(Path(wheel).read_bytes()).hexdigest(),
        "files": {path: small[path] for path in sorted(kept)},
        "holes": [[use.path, use.start, use.stop, use.name, use.defined_in] for use in chosen],
    }


def _chosen(files: Mapping[str, str], chance: random.Random, num_holes: int) -> list[Use]:
    """Of each file a few, of files drawn until there are enough."""
    chosen: list[Use] = []
    for path in chance.sample(sorted(files), len(files)):
        uses = list(_uses(path, files))
        chosen += chance.sample(uses, min(_HOLES_PER_FILE, len(uses)))
        if len(chosen) >= num_holes:
            break
    return chosen


def _uses(path: str, files: Mapping[str, str]) -> Iterator[Use]:
    """One per line at most, and nothing that is used on that line for the second time."""
    text = files[path]
    tree = ast.parse(text)
    imported = dict(_imported(tree, path, files))
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    seen: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or node.id not in imported or node.lineno in seen:
            continue
        line = lines[node.lineno - 1]
        if not line.isascii():
            continue  # columns are bytes
        seen.add(node.lineno)
        stop = starts[node.lineno - 1] + len(line.rstrip())
        yield Use(path, node.id, imported[node.id], starts[node.lineno - 1] + node.col_offset, stop)


def _imported(tree: ast.Module, path: str, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Names that come from a file of the same package which defines them, and that file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        folder = Path(path).parents[node.level - 1] if node.level else Path()
        module = folder.joinpath(*(node.module or "").split("."))
        for source in (f"{module}.py", f"{module}/__init__.py"):
            if source in files and source != path:
                defined = _defined(files[source])
                yield from (
                    (name.name, source) for name in node.names if name.name in defined and not name.asname
                )


def _defined(text: str) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(text).body if isinstance(node, kinds)}


if __name__ == "__main__":
    main()
