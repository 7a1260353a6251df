"""What `pip install halfline` brings along: small, and no torch."""

import re
from importlib import metadata
from pathlib import Path

MAX_BYTES = 150 * 2**20


def _base_closure(name: str) -> set[str]:
    """The distribution and everything it needs when no extra is asked for."""
    found: set[str] = set()
    todo = [name]
    while todo:
        current = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if current in found:
            continue
        found.add(current)
        for requirement in metadata.requires(current) or []:
            spec, _, marker = requirement.partition(";")
            if "extra" not in marker and _applies(marker):
                match = re.match(r"\s*([A-Za-z0-9._-]+)", spec)
                assert match, requirement
                todo.append(match[1])
    return found


def _applies(marker: str) -> bool:
    from packaging.markers import Marker

    return not marker.strip() or Marker(marker.strip()).evaluate()


def test_the_base_install_has_no_torch():
    assert "torch" not in _base_closure("halfline")


def test_the_base_install_stays_under_150_mib():
    sizes = {}
    for name in _base_closure("halfline"):
        files = metadata.files(name) or []
        sizes[name] = sum(
            path.stat().st_size for file in files if (path := Path(str(file.locate()))).exists()
        )
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:6]
    assert sum(sizes.values()) <= MAX_BYTES, f"{sum(sizes.values()):,} bytes; the largest are {largest}"
    assert sizes["numpy"] > 1_000_000  # the sizes are really read
