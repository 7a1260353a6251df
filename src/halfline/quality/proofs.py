"""Which settings lose something, and which gates a model has passed with them: `serve` asks before it starts (C10).

    DATA_DIR/quality/proofs.jsonl     a line for each gate that was run whole, the latest of equal ones counts

A proof is about one model's bytes, exactly the settings that lose something, because two mechanisms that passed alone
may fail together, and one version of halfline, because the next may lose by the same settings in another way.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from halfline.errors import BadSettings

FILE_NAME = Path("quality") / "proofs.jsonl"

MIN_TASKS = 100
"""Fewer prove nothing: damage that is rare would go unseen."""

MIN_TOKENS = 64
"""Of each answer and each true text, at most: shorter ones prove nothing, as damage grows with what was generated."""

EXACT: Mapping[str, object] = {"kv_format": "f16", "context.compression": []}
"""Settings that may lose something, by dotted name, and the value with which they do not."""

HOW_MUCH: Mapping[str, tuple[str, ...]] = {
    "context.compression": ("context.keep", "context.chosen", "pipeline.part_tokens")
}
"""Settings that matter once another one is not exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """`settings` are those that lose something; `measured` is the report, `arm` names what in quality.toml was run, by
    halfline's `version`.
    """

    model_sha256: str
    settings: Mapping[str, object]
    arm: str
    passed: bool
    date: str
    version: str
    measured: Mapping[str, object]


def lossy(settings: Mapping[str, Any]) -> dict[str, object]:
    """Of settings as nested JSON data those that lose something, by dotted name."""
    found = {}
    for key, exact in EXACT.items():
        if (value := _value(settings, key)) != exact:
            found[key] = value
            found |= {other: _value(settings, other) for other in HOW_MUCH.get(key, ())}
    return found


def _value(settings: Mapping[str, Any], key: str) -> object:
    value: Any = settings
    for name in key.split("."):
        value = value[name]
    return value


def keep(data_dir: Path, proof: Proof) -> None:
    """Raises BadSettings when it cannot be written."""
    path = data_dir / FILE_NAME
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            # Behind a line that a process left torn the next one would be none either.
            if file.tell() and (file.seek(-1, os.SEEK_END), file.read())[1] != b"\n":
                file.write(b"\n")
            file.write(json.dumps(asdict(proof)).encode() + b"\n")
    except OSError as error:
        raise BadSettings(f"the proof cannot be kept in {path}: {error}") from error


def find(data_dir: Path, model_sha256: str, settings: Mapping[str, object], version: str) -> Proof | None:
    """The latest gate that this model went through with exactly these, in that version. Lines that cannot be read prove
    nothing.
    """
    path = data_dir / FILE_NAME
    if not path.exists():
        return None
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise BadSettings(f"the proofs in {path} cannot be read: {error}") from error
    for line in reversed(lines):
        try:
            proof = Proof(**json.loads(line))
        except (ValueError, TypeError, RecursionError):
            continue
        if not isinstance(proof.passed, bool):
            continue
        if (proof.model_sha256, proof.settings, proof.version) == (model_sha256, dict(settings), version):
            return proof
    return None
