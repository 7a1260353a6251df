"""What may stand for a task's placeholders: a JSON Schema, of which only those words are allowed that cost no more than
one look at each value. References could read files, patterns could take for ever.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

from halfline.errors import BadTemplate, PlaceholdersRefused

_WORDS = frozenset(
    (
        *("type", "properties", "required", "additionalProperties", "items", "enum", "const"),
        *("minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"),
        *("default", "title", "description"),
    )
)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_MAX_DEPTH = 8
_MAX_VALUES = 10_000
_MAX_CHARACTERS = 1 << 22
_MAX_NAMED = 64  # wrong places that one answer names
_MAX_ALLOWED = 256  # values of one `enum`: each value is compared with all of them
_MAX_NUMBER_BITS = 1024  # as a float's; Python refuses to write down numbers a few times as long


class Placeholders:
    """The schema of an object; what it does not name is refused."""

    def __init__(self, where: str, schema: object) -> None:
        """`where` names the template in errors. Raises BadTemplate."""
        _check_words(where, schema, 0)
        assert isinstance(schema, dict)
        if schema.get("type", "object") != "object":
            raise BadTemplate(where, "`placeholders` must be the schema of an object")
        names = schema.get("properties", {})
        bad = [name for name in names if not _NAME.fullmatch(name)]
        if bad:
            raise BadTemplate(where, f"placeholders are called a, b_2, …, and not {bad[0][:64]!r}")
        unknown = [name for name in schema.get("required", ()) if name not in names]
        if unknown:
            raise BadTemplate(where, f"`required` names {unknown[0][:64]!r}, which is no property")
        always = {"type": "object", "properties": {}, "additionalProperties": False}
        self.schema: Mapping[str, Any] = {**always, **schema}
        self.names: frozenset[str] = frozenset(names)
        self._where = where
        _ = self._validator  # an impossible schema is found here, and not by a client

    def check(self, values: object) -> None:
        """Raises PlaceholdersRefused, naming everything that is missing or wrong."""
        if isinstance(values, Mapping):
            check_finite(values)
        num_values, num_characters = _size(values)
        if num_values > _MAX_VALUES or num_characters > _MAX_CHARACTERS:
            raise PlaceholdersRefused(
                {
                    "placeholders": f"has {num_values} values and {num_characters} characters,"
                    f" at most {_MAX_VALUES} and {_MAX_CHARACTERS} are read"
                }
            )
        try:
            wrong = self._wrong(values)
        except RecursionError:
            wrong = {"placeholders": "are nested too deeply"}
        if wrong:
            raise PlaceholdersRefused(dict(sorted(wrong.items())))

    def filled(self, values: Mapping[str, object]) -> dict[str, object]:
        """The values, and for what may be left out its default; None without one."""
        properties = self.schema["properties"]
        return {name: values.get(name, properties[name].get("default")) for name in self.names}

    def _wrong(self, values: object) -> dict[str, str]:
        wrong: dict[str, str] = {}
        for error in self._validator.iter_errors(values):
            for place, reason in _complaints(error):
                wrong.setdefault(place, reason)
            if len(wrong) >= _MAX_NAMED:
                break
        return wrong

    @cached_property
    def _validator(self) -> Any:
        try:
            return _validator_of(json.dumps(self.schema, allow_nan=False))
        except (ValueError, TypeError) as error:  # also for what TOML has and JSON has not: dates, infinities
            raise BadTemplate(self._where, f"`placeholders`: {error}") from None
        except RecursionError:
            raise BadTemplate(self._where, "`placeholders` is nested too deeply") from None


def check_finite(values: Mapping[str, object]) -> None:
    """Raises PlaceholdersRefused, naming those that hold NaN or an infinity: no schema means them, and no JSON."""
    wrong = {
        f"placeholders.{name[:64]}": "holds NaN, an infinity or too large a number"
        for name, value in values.items()
        if not all(math.isfinite(each) for each in _every_float(value))
    }
    if wrong:
        raise PlaceholdersRefused(dict(islice(sorted(wrong.items()), _MAX_NAMED)))


def _every_float(value: object) -> Iterator[float]:
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, float):
            yield each
        elif isinstance(each, dict):
            stack += each.values()
        elif isinstance(each, list):
            stack += each


@lru_cache(maxsize=256)
def _validator_of(schema: str) -> Any:
    """Of a schema in JSON, checked: which takes longer than all else about a template. Raises ValueError."""
    # Start-up time: most servers complete code and are never asked for a task.
    from jsonschema import Draft202012Validator, SchemaError

    read = json.loads(schema)
    try:
        Draft202012Validator.check_schema(read)
    except SchemaError as error:
        raise ValueError(error.message[:200]) from None
    return Draft202012Validator(read)


def _check_words(where: str, schema: object, depth: int) -> None:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        raise BadTemplate(where, f"`placeholders` must be a JSON Schema, nested at most {_MAX_DEPTH} deep")
    unknown = sorted(schema.keys() - _WORDS)
    if unknown:
        raise BadTemplate(
            where, f"`placeholders` uses `{unknown[0]}`; what is served is {', '.join(sorted(_WORDS))}"
        )
    properties, required = schema.get("properties", {}), schema.get("required", [])
    named = isinstance(required, list) and all(isinstance(each, str) for each in required)
    if not isinstance(properties, dict) or not named:
        raise BadTemplate(where, "`properties` must be a table and `required` a list of names")
    allowed = schema.get("enum", [])
    if not isinstance(allowed, list) or len(allowed) > _MAX_ALLOWED:
        raise BadTemplate(where, f"`enum` must be a list of at most {_MAX_ALLOWED} values")
    inner = [*properties.values(), *([schema["items"]] if "items" in schema else [])]
    if isinstance(schema.get("additionalProperties"), dict):
        inner.append(schema["additionalProperties"])
    for each in inner:
        _check_words(where, each, depth + 1)


def _size(values: object) -> tuple[int, int]:
    """How many values, and how many characters in texts and keys. Raises PlaceholdersRefused for a huge number."""
    num_values = num_characters = 0
    stack = [values]
    while stack:
        each = stack.pop()
        num_values += 1
        if isinstance(each, str):
            num_characters += len(each)
        elif isinstance(each, int) and each.bit_length() > _MAX_NUMBER_BITS:
            raise PlaceholdersRefused({"placeholders": f"have a number of more than {_MAX_NUMBER_BITS} bits"})
        elif isinstance(each, dict):
            num_characters += sum(map(len, each))
            stack += each.values()
        elif isinstance(each, list):
            stack += each
    return num_values, num_characters


def _complaints(error: Any) -> Iterator[tuple[str, str]]:
    """Where, and what is wrong there. The value itself is left out: it may be megabytes."""
    place = ".".join(("placeholders", *(str(part) for part in error.absolute_path)))
    word, wanted = error.validator, error.validator_value
    if word == "required":
        for name in wanted:
            if name not in error.instance:
                yield f"{place}.{name}", "is missing"
    elif word == "additionalProperties" and wanted is False:
        known = error.schema.get("properties", {})
        for name in error.instance:
            if name not in known:
                yield f"{place}.{name[:64]}", f"is unknown; known are {', '.join(known) or 'none'}"
    elif word == "type":
        yield place, f"must be of type {wanted if isinstance(wanted, str) else ' or '.join(wanted)}"
    elif word in ("enum", "const"):
        allowed = wanted if word == "enum" else [wanted]
        yield place, f"must be one of {', '.join(str(each)[:64] for each in allowed[:32])}"
    else:
        yield place, f"breaks `{word}`: {wanted}"
