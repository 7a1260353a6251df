"""What it costs to index a folder, to look again, and to ask.

    python -m bench.index_size FOLDER [--make N] [--data-dir FOLDER] [--queries N]

With --make the folder is made first: N files of about 2 KB, 60 lines of this Python's standard library below a function
with a name of its own. Printed are processor seconds of reading everything and of looking again, the most memory in
use, the index's size, and processor milliseconds of looking for pieces for a file that imports another's function; and
how often that function's definition was among them. The last line is JSON.
"""

import argparse
import json
import random
import resource
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np

from halfline.context.sources.found import RankedSources
from halfline.context.sources.index import index_of
from halfline.context.sources.workspace import ImportedDefinitions, SimilarPieces
from halfline.request import Document

_LINES = 60


def make(folder: Path, count: int) -> None:
    rng = random.Random(0)
    root = Path(sysconfig.get_path("stdlib"))
    texts = [path.read_text("utf-8").splitlines(True) for path in sorted(root.glob("*.py"))]
    texts = [lines for lines in texts if len(lines) > 2 * _LINES]
    for number in range(count):
        file = folder / _path(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = rng.choice(texts)
        start = rng.randrange(len(lines) - _LINES)
        head = f"def unique_function_{number}(argument):\n    return argument\n"
        file.write_text(head + "".join(lines[start : start + _LINES]))


def _path(number: int) -> str:
    return f"pack{number // 10_000:02}/group{number // 100:04}/module{number:06}.py"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--make", type=int, default=0)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--queries", type=int, default=40)
    options = parser.parse_args()
    if options.make:
        make(options.folder, options.make)
    with tempfile.TemporaryDirectory() as spare:
        index = index_of(options.folder, options.data_dir or Path(spare))
        result: dict[str, float] = {}
        for what in ("read", "again"):
            began = time.process_time()
            updated = index.update()
            result[f"{what}_cpu_s"] = time.process_time() - began
            print(what, updated, f"{result[f'{what}_cpu_s']:.1f} s")
        result["max_rss_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        result["index_mib"] = sum(each.stat().st_size for each in index.database_files()) / 2**20
        result |= _ask(RankedSources([ImportedDefinitions(index), SimilarPieces(index)], 512), options)
    print("  ".join(f"{key} {value:.1f}" for key, value in result.items()))
    print(json.dumps(result))


def _ask(sources: RankedSources, options: argparse.Namespace) -> dict[str, float]:
    spent, hits = [], 0
    for number in range(0, 50 * options.queries, 50):
        path = options.folder / _path(number)
        other = _path(number + 1).removesuffix(".py").replace("/", ".")
        if not path.exists():
            break
        name = f"unique_function_{number + 1}"
        text = f"from {other} import {name}\n{path.read_text()[:1500]}\n{name}("
        began = time.process_time()
        found = sources.find(Document(text, "", "main.py"), None)
        spent.append((time.process_time() - began) * 1e3)
        hits += any(f"defines {name}," in each.reason for each in found)
    if not spent:
        return {}
    return {
        "query_p50_ms": float(np.percentile(spent, 50)),
        "query_p95_ms": float(np.percentile(spent, 95)),
        "hit_share": hits / len(spent),
    }


if __name__ == "__main__":
    main()
