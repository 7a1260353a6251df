"""What clients may rely on: docs/openapi.json. More may be added; what is there may not go or get narrower.

`make contract` writes the page anew, for a change that is meant.
"""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from halfline.api.app import create_app
from halfline.api.options import ApiOptions
from halfline.api.serving import Loaded

PAGE = Path(__file__).parents[2] / "docs" / "openapi.json"

Schema = dict[str, Any]

# In which direction each gets narrower.
_BOUNDS = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), 1),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), -1),
}


def never() -> Loaded:
    raise AssertionError("nothing here loads a model")


def served() -> Schema:
    return create_app(never, ApiOptions()).openapi()


def complaints(old: Schema, new: Schema) -> Iterator[str]:
    """One sentence for each thing that worked by the old page and may not by the new."""
    for name, scheme in old["components"].get("securitySchemes", {}).items():
        if new["components"].get("securitySchemes", {}).get(name) != scheme:
            yield f"a key cannot be sent as {name} any more"
    for path, methods in old["paths"].items():
        for method, operation in methods.items():
            where = f"{method.upper()} {path}"
            found = new["paths"].get(path, {}).get(method)
            if found is None:
                yield f"{where} is gone"
            else:
                yield from _of_operation(operation, found, where)


def _of_operation(old: Schema, new: Schema, where: str) -> Iterator[str]:
    old_parameters = {each["name"]: each for each in old.get("parameters", ())}
    new_parameters = {each["name"]: each for each in new.get("parameters", ())}
    for name in old_parameters.keys() - new_parameters.keys():
        yield f"{where}: the parameter {name} is gone"
    for name, parameter in new_parameters.items():
        if parameter.get("required") and not old_parameters.get(name, {}).get("required"):
            yield f"{where}: the parameter {name} is required now"
    old_body, new_body = _body(old), _body(new)
    if old_body is not None and new_body is None:
        yield f"{where}: it takes no body any more"
    elif new_body is not None:
        yield from _narrower(old_body or {}, new_body, where)


def _body(operation: Schema) -> Schema | None:
    content = operation.get("requestBody", {}).get("content", {})
    return content.get("application/json", {}).get("schema")


def _narrower(old: Schema, new: Schema, where: str) -> Iterator[str]:
    """What a value by the old schema may be refused for by the new one."""
    if "anyOf" in old or "anyOf" in new:
        alternatives = new.get("anyOf", [new])
        for each in old.get("anyOf", [old]):
            if alternatives != [{}] and all(any(_narrower(each, a, where)) for a in alternatives):
                reasons = [next(_narrower(each, a, where)) for a in alternatives]
                yield reasons[0] if len(reasons) == 1 else f"{where}: {_short(each)} is refused now"
        return
    if "type" in new and old.get("type") != new["type"]:
        widened = old.get("type") == "integer" and new["type"] == "number"
        if not widened:
            yield f"{where}: it was {_short(old)}, it must be {_short(new)}"
            return
    yield from _fewer_values(old, new, where)
    for name in new.get("required", ()):
        if name not in old.get("required", ()):
            yield f"{where}: {name} is required now"
    for name, schema in old.get("properties", {}).items():
        if name not in new.get("properties", {}):
            yield f"{where}: {name} is gone"
        else:
            yield from _narrower(schema, new["properties"][name], f"{where}: {name}")
    if "items" in new:
        yield from _narrower(old.get("items", {}), new["items"], f"{where}[]")
    if isinstance(new.get("additionalProperties"), dict):
        wider = old.get("additionalProperties")
        yield from _narrower(wider if isinstance(wider, dict) else {}, new["additionalProperties"], where)


def _fewer_values(old: Schema, new: Schema, where: str) -> Iterator[str]:
    for name in ("enum", "const"):
        was, now = _values(old, name), _values(new, name)
        if now is not None and (was is None or not was <= now):
            yield f"{where}: only {sorted(now)} are taken now"
    for name, direction in _BOUNDS.items():
        if name in new and (name not in old or (new[name] - old[name]) * direction > 0):
            yield f"{where}: {name} is {new[name]} now, it was {old.get(name, 'not limited')}"


def _values(schema: Schema, name: str) -> set[str] | None:
    if name not in schema:
        return None
    values = schema[name] if name == "enum" else [schema[name]]
    return {json.dumps(value) for value in values}


def _short(schema: Schema) -> str:
    return str(schema.get("type", "anything"))


def test_what_clients_rely_on_is_still_there() -> None:
    broken = list(complaints(json.loads(PAGE.read_text(encoding="utf-8")), served()))
    assert not broken, "\n".join([*broken, "if that is meant, `make contract` writes docs/openapi.json anew"])


def test_every_body_is_described_and_refers_to_nothing_outside_itself() -> None:
    text = json.dumps(served())
    assert "$defs" not in text
    for path, methods in served()["paths"].items():
        if "post" in methods and path not in ("/slots/{slot_id}", "/v1/completions/{completion_id}/cancel"):
            assert _body(methods["post"]) is not None, path


def test_a_key_can_be_sent_in_each_of_its_headers_and_health_wants_none() -> None:
    page = served()
    schemes = page["components"]["securitySchemes"]
    assert {scheme.get("name", scheme.get("scheme")) for scheme in schemes.values()} == {
        "bearer",
        "x-api-key",
        "api-key",
    }
    assert [set(way) for way in page["security"]] == [set(), *({name} for name in schemes)]
    keyless = {
        path for path, methods in page["paths"].items() if methods.get("get", {}).get("security") == []
    }
    assert keyless == {"/health", "/v1/health"}
    without = copy.deepcopy(page)
    del without["components"]["securitySchemes"]["api-key"]
    assert list(complaints(page, without)) == ["a key cannot be sent as api-key any more"]


def changed(path: str, *keys: str, value: Any) -> tuple[Schema, Schema]:
    """The page, and it with one thing in the body of a route changed; None deletes it."""
    old = served()
    new = copy.deepcopy(old)
    place: Any = _body(new["paths"][path]["post"])
    for key in keys[:-1]:
        place = place[key]
    if value is None:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return old, new


@pytest.mark.parametrize(
    ("keys", "value", "complaint"),
    [
        (("properties", "max_tokens"), None, "max_tokens is gone"),
        (("properties", "n", "anyOf"), [{"type": "string"}], "n"),
        (("properties", "n", "anyOf", 0, "maximum"), 64, "n"),
        (("properties", "n", "anyOf", 0, "maximum"), 256, None),
        (("properties", "temperature", "anyOf"), [{"type": "integer"}], "temperature"),
        (("properties", "priority", "anyOf", 0, "enum"), ["interactive"], "priority"),
        (("required",), ["messages", "model"], "model is required now"),
        (("properties", "new_field"), {"type": "string"}, None),
        (("properties", "user", "description"), "another", None),
    ],
)
def test_additions_pass_and_what_breaks_a_client_is_named(keys, value, complaint) -> None:
    broken = list(complaints(*changed("/v1/chat/completions", *keys, value=value)))
    if complaint is None:
        assert broken == []
    else:
        assert broken and complaint in broken[0]


def test_a_route_that_goes_and_a_parameter_that_is_demanded_are_named() -> None:
    old, new = served(), served()
    new = copy.deepcopy(new)
    del new["paths"]["/infill"]
    new["paths"]["/slots"]["get"]["parameters"][0]["required"] = True
    assert list(complaints(old, new)) == [
        "POST /infill is gone",
        "GET /slots: the parameter fail_on_no_slot is required now",
    ]
