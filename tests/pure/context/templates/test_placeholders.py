"""Placeholders: a schema of few words, and refusals that name every place."""

import math
from datetime import date

import pytest

from halfline.context.templates.placeholders import Placeholders
from halfline.errors import BadTemplate, PlaceholdersRefused

SCHEMA = {
    "required": ["code", "error"],
    "properties": {
        "code": {"type": "string", "minLength": 1},
        "error": {"type": "string"},
        "style": {"enum": ["short", "long"], "default": "short"},
        "tables": {
            "type": "array",
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
        "count": {"type": ["integer", "null"], "maximum": 9},
    },
}


def wrong(values: object) -> dict[str, str]:
    with pytest.raises(PlaceholdersRefused) as refused:
        Placeholders("t/1", SCHEMA).check(values)
    assert refused.value.field == next(iter(refused.value.wrong))
    for place, reason in refused.value.wrong.items():
        assert f"`{place}` {reason}" in str(refused.value)
    return dict(refused.value.wrong)


def test_everything_that_is_missing_or_wrong_is_named_at_once() -> None:
    found = wrong(
        {"code": "", "style": "x", "other": 1, "tables": [{"name": "a"}, {"name": 2}, {}], "count": 10}
    )
    assert found == {
        "placeholders.code": "breaks `minLength`: 1",
        "placeholders.count": "breaks `maximum`: 9",
        "placeholders.error": "is missing",
        "placeholders.other": "is unknown; known are code, error, style, tables, count",
        "placeholders.style": "must be one of short, long",
        "placeholders.tables.1.name": "must be of type string",
        "placeholders.tables.2.name": "is missing",
    }


def test_a_refusal_repeats_no_value() -> None:
    found = wrong({"code": 1, "error": ["secret" * 1000], "count": "x"})
    assert found == {
        "placeholders.code": "must be of type string",
        "placeholders.count": "must be of type integer or null",
        "placeholders.error": "must be of type string",
    }


@pytest.mark.parametrize("values", [None, [], "x", 3])
def test_placeholders_are_an_object(values: object) -> None:
    assert wrong(values) == {"placeholders": "must be of type object"}


def test_more_values_than_are_looked_at_are_refused_unseen() -> None:
    assert "at most" in wrong({"code": "x", "error": "", "tables": [0] * 20_000})["placeholders"]
    assert "at most" in wrong({"code": "x" * (1 << 23), "error": ""})["placeholders"]


def test_a_number_that_cannot_be_written_down_and_a_value_too_deep_are_refused() -> None:
    assert "a number of more than" in wrong({"code": "x", "error": "", "count": 1 << 20_000})["placeholders"]
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(PlaceholdersRefused):
        Placeholders("t/1", {"properties": {"any": {"type": "string"}}}).check({"any": deep})


def test_a_number_that_no_json_can_say_is_refused_by_the_name_of_its_placeholder() -> None:
    found = wrong({"code": "x", "count": math.nan, "tables": [{"name": [-math.inf]}], "y" * 100: math.inf})
    assert list(found) == ["placeholders.count", "placeholders.tables", f"placeholders.{'y' * 64}"]
    many = wrong({f"n{number}": math.inf for number in range(1000)})
    assert len(many) == 64


def test_a_schema_that_names_nothing_has_no_properties() -> None:
    assert Placeholders("t/1", {}).schema["properties"] == {}


def test_what_is_left_out_has_its_default_or_is_none() -> None:
    filled = Placeholders("t/1", SCHEMA).filled({"code": "x", "error": "y"})
    assert filled == {"code": "x", "error": "y", "style": "short", "tables": None, "count": None}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "file:///etc/passwd"}, "ref"),
        ({"properties": {"a": {"pattern": "(a+)+$"}}}, "pattern"),
        ({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "uniqueItems"),
        ({"properties": {"A": {}}}, "'A'"),
        ({"required": [["a"]]}, "a list of names"),
        ({"properties": {"a": {"enum": list(range(300))}}}, "at most 256"),
        ({"properties": {"a": {"maximum": 1 << 20_000}}}, "`placeholders`"),
        ({"properties": {"_budget": {}}}, "_budget"),
        ({"properties": {"a": {"type": "text"}}}, "not valid"),
        ({"properties": {"a": {"maximum": math.inf}}}, "JSON"),
        ({"properties": {"a": {"default": date(2026, 1, 1)}}}, "JSON"),
        ({"properties": []}, "table"),
        ({"required": ["b"], "properties": {"a": {}}}, "'b'"),
        ({"type": "array"}, "object"),
        ("x", "JSON Schema"),
        (
            {
                "items": {
                    "items": {"items": {"items": {"items": {"items": {"items": {"items": {"items": {}}}}}}}}
                }
            },
            "deep",
        ),
    ],
)
def test_a_schema_that_could_read_take_long_or_means_nothing_is_refused(schema: object, reason: str) -> None:
    with pytest.raises(BadTemplate, match=reason):
        Placeholders("t/1", schema)
