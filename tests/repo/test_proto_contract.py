"""What gRPC clients may rely on: docs/grpc.json, the descriptor of api/rpc/halfline.proto. More may be added; what is
there may not go, change its name, number or type. The generated code is what the proto file generates.

`make contract` writes the page anew, for a change that is meant.
"""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from halfline.api.rpc.descriptor import described

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "grpc.json"
PROTO = Path("halfline/api/rpc/halfline.proto")

Page = dict[str, Any]


def complaints(old: Page, new: Page) -> Iterator[str]:
    """One sentence for each thing that worked by the old page and may not by the new."""
    if old["package"] != new["package"]:
        yield f"the package was {old['package']}, it is {new['package']}"
    for name, methods in old["services"].items():
        for method, shape in methods.items():
            yield from _changed(shape, new["services"].get(name, {}).get(method), f"{name}.{method}")
    for name, values in old["enums"].items():
        for number, value in values.items():
            yield from _changed(value, new["enums"].get(name, {}).get(number), f"{name}: {value}")
    for name, fields in old["messages"].items():
        for number, field in fields.items():
            found = new["messages"].get(name, {}).get(number)
            yield from _changed(field, found, f"{name}.{field['name']}")


def _changed(old: Any, new: Any, where: str) -> Iterator[str]:
    if new is None:
        yield f"{where} is gone"
    elif isinstance(old, str):
        if old != new:
            yield f"{where} is called {new}"
    else:
        for aspect in old:
            if old[aspect] != new[aspect]:
                yield f"{where}: {aspect} was {old[aspect]}, it is {new[aspect]}"


def test_what_grpc_clients_rely_on_is_still_there() -> None:
    broken = list(complaints(json.loads(PAGE.read_text(encoding="utf-8")), described()))
    assert not broken, "\n".join([*broken, "if that is meant, `make contract` writes docs/grpc.json anew"])


def test_the_generated_code_is_what_the_proto_file_generates(tmp_path: Path) -> None:
    command = ["-m", "grpc_tools.protoc", "-I", "src", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([sys.executable, *command, str(PROTO)], cwd=ROOT, check=True)
    for kind in (".py", ".pyi"):
        name = PROTO.with_name(f"halfline_pb2{kind}")
        assert (tmp_path / name).read_text() == (ROOT / "src" / name).read_text(), "run `make contract`"


@pytest.mark.parametrize(
    ("place", "value", "complaint"),
    [
        (("messages", "Document", "2"), None, "Document.suffix is gone"),
        (("messages", "Document", "2", "name"), "after", "Document.suffix: name was suffix, it is after"),
        (("messages", "Document", "2", "type"), "bytes", "Document.suffix: type was string, it is bytes"),
        (("messages", "Sampling", "12", "label"), "optional", "Sampling.stop: label was repeated"),
        (("messages", "CompletionRequest", "1", "oneof"), None, "CompletionRequest.text: oneof was prompt"),
        (("messages", "Document"), None, "Document.prefix is gone"),
        (("enums", "Priority", "3"), "LAZY", "Priority: IDLE is called LAZY"),
        (("enums", "FinishReason", "5"), None, "FinishReason: SUPERSEDED is gone"),
        (("services", "Completions", "Complete"), None, "Completions.Complete is gone"),
        (
            ("services", "Completions", "Complete", "returns"),
            "stream Completion",
            "Completions.Complete: returns was Completion, it is stream Completion",
        ),
        (("package",), "halfline.v2", "the package was halfline.v1, it is halfline.v2"),
        (("messages", "Document", "9"), {"name": "language", "type": "string"}, None),
        (("messages", "Language"), {}, None),
        (("enums", "Priority", "4"), "LAZY", None),
        (("services", "Completions", "Cancel"), {"takes": "Id", "returns": "Id"}, None),
    ],
)
def test_additions_pass_and_what_breaks_a_client_is_named(place, value, complaint) -> None:
    old = described()
    new = copy.deepcopy(old)
    inside: Any = new
    for key in place[:-1]:
        inside = inside[key]
    if value is None and place[-1] != "oneof":
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    broken = list(complaints(old, new))
    if complaint is None:
        assert broken == []
    else:
        assert broken and broken[0].startswith(complaint)
