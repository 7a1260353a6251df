"""One version of a task: its parts, its placeholders, and the file they are read from.

    role, task, constraint    say what the model is, does and must not do: the same for every request
    few_shot                  placeholders and the answer to them: the same for every request too
    input                     the only part that placeholders fill in, by a template (sandbox.py)

So everything before the input is constant by construction. A version may say of another, `based_on`, what it leaves
out: two versions that differ in one part measure that part.

Knows the file's form; neither where files lie nor how a model wants to be spoken to.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any

from halfline.context.templates.placeholders import Placeholders
from halfline.context.templates.sandbox import InputTemplate
from halfline.errors import BadTemplate, PlaceholdersRefused

MAX_FILE_BYTES = 1 << 18
_MAX_PART_CHARACTERS = 1 << 16
_MAX_EXAMPLES = 32

# tomllib takes the square of a key's parts: a second for 8,000, minutes for what a file has room for. So dots are
# counted before, those of a line that are in no string or comment.
_MAX_DOTS = 64
_STRINGS = re.compile(
    r'''"""(?:\\.|[^\\])*?(?:"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?|#[^\n]*''',
    re.DOTALL,
)

_TEXTS = ("summary", "role", "task", "constraint", "input")
_KNOWN = frozenset(
    (*_TEXTS, "based_on", "asked_as", "few_shot", "placeholders", "weight", "max_tokens", "stop")
)


@dataclass(frozen=True, slots=True)
class Example:
    """What stands for the placeholders, as the input shows it, and the answer that is wanted for that."""

    input: str
    output: str


@dataclass(frozen=True)
class TaskTemplate:
    """`asked_as` are words people use for the task. `weight` is its share among the task's versions; 0: it answers
    only those who name it. `max_tokens` None: as the server does. `file` is the table with what it is based on,
    `source` its own text.
    """

    name: str
    version: str
    summary: str
    role: str
    task: str
    constraint: str
    input: InputTemplate
    placeholders: Placeholders
    examples: tuple[Example, ...] = ()
    asked_as: tuple[str, ...] = ()
    weight: float = 1.0
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    file: Mapping[str, Any] = field(default_factory=dict, compare=False)
    source: str = field(default="", compare=False)

    @property
    def instructions(self) -> str:
        """Role, task and constraint, a paragraph each."""
        return "\n\n".join(part for part in (self.role, self.task, self.constraint) if part)

    @cached_property
    def parts(self) -> Mapping[str, str]:
        """A digest of each part: what two versions share has the same."""
        names = ("role", "task", "constraint", "few_shot", "input", "placeholders")
        return {name: _digest(self.file[name]) for name in names if name in self.file}

    @cached_property
    def digest(self) -> str:
        """Of everything the model is shown. Two templates of one digest make the same prompts."""
        return _digest(self.parts)

    def text(self, values: Mapping[str, object], max_characters: int) -> str:
        """The input with checked values in it. Raises PlaceholdersRefused for a text longer than that."""
        return self.input.render(self.placeholders.filled(values), max_characters)


def read_template(name: str, version: str, data: bytes, bases: Mapping[str, bytes]) -> TaskTemplate:
    """The template of a TOML file. `bases` are the files of the task's versions, for `based_on`.

    Raises BadTemplate.
    """
    where = f"{name}/{version}"
    file = _file(where, data, bases)
    texts = {each: _text(where, each, file.get(each, "")) for each in _TEXTS}
    for each in ("summary", "task", "input"):
        if not texts[each]:
            raise BadTemplate(where, f"`{each}` is missing")
    placeholders = Placeholders(where, file.get("placeholders", {"type": "object", "properties": {}}))
    source = InputTemplate(where, texts["input"], placeholders.names)
    template = TaskTemplate(
        name=name,
        version=version,
        summary=texts["summary"],
        role=texts["role"],
        task=texts["task"],
        constraint=texts["constraint"],
        input=source,
        placeholders=placeholders,
        examples=_examples(where, file.get("few_shot", []), placeholders, source),
        asked_as=_texts(where, "asked_as", file.get("asked_as", [])),
        weight=_number(where, "weight", file.get("weight", 1.0), 0.0, 1e6),
        max_tokens=_count(where, file.get("max_tokens")),
        stop=_texts(where, "stop", file.get("stop", [])),
        file=file,
        source=data.decode(),
    )
    try:
        _ = template.digest  # what cannot be written down is found here, and not by who lists the tasks
    except (ValueError, TypeError, RecursionError):
        raise BadTemplate(where, "it holds numbers that are too large, or is nested too deeply") from None
    return template


def _file(where: str, data: bytes, bases: Mapping[str, bytes]) -> dict[str, Any]:
    """The file's table, with what it leaves out taken from what it is based on."""
    seen: list[str] = []
    merged: dict[str, Any] = {}
    while True:
        table = _table(where, data)
        merged = {**table, **{key: value for key, value in merged.items() if key != "based_on"}}
        base = table.get("based_on")
        if base is None:
            return merged
        del merged["based_on"]
        if not isinstance(base, str) or base not in bases or base in seen:
            raise BadTemplate(where, f"`based_on` is {_told(base)}, it must name another version of the task")
        seen.append(base)
        data = bases[base]


def _table(where: str, data: bytes) -> dict[str, Any]:
    if len(data) > MAX_FILE_BYTES:
        raise BadTemplate(where, f"it has {len(data)} bytes, the limit is {MAX_FILE_BYTES}")
    try:
        text = data.decode()
        if any(line.count(".") > _MAX_DOTS for line in _STRINGS.sub("''", text).split("\n")):
            raise BadTemplate(where, f"a key has more than {_MAX_DOTS} parts")
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # what is no UTF-8 and what is no TOML
        raise BadTemplate(where, f"it is no TOML: {error}") from None
    unknown = sorted(table.keys() - _KNOWN)
    if unknown:
        raise BadTemplate(
            where, f"unknown names: {', '.join(unknown)}; known are {', '.join(sorted(_KNOWN))}"
        )
    return table


def _text(where: str, name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > _MAX_PART_CHARACTERS:
        raise BadTemplate(where, f"`{name}` must be a text of at most {_MAX_PART_CHARACTERS} characters")
    return value.strip("\n")


def _texts(where: str, name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise BadTemplate(where, f"`{name}` must be a list of texts")
    return tuple(value)


def _number(where: str, name: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadTemplate(where, f"`{name}` is {_told(value)}, it must be a number from {low:g} to {high:g}")
    return float(value)


def _told(value: object) -> str:
    try:
        return repr(value)[:64]
    except (ValueError, RecursionError):  # Python writes down no number of thousands of digits
        return "too large to be shown"


def _count(where: str, value: object) -> int | None:
    return None if value is None else int(_number(where, "max_tokens", value, 1, 2**31 - 1))


def _examples(
    where: str, value: object, placeholders: Placeholders, source: InputTemplate
) -> tuple[Example, ...]:
    if not isinstance(value, list) or len(value) > _MAX_EXAMPLES:
        raise BadTemplate(where, f"`few_shot` must be a list of at most {_MAX_EXAMPLES} tables")
    examples = []
    for position, each in enumerate(value):
        if not isinstance(each, dict) or each.keys() != {"placeholders", "output"}:
            raise BadTemplate(
                where, f"few_shot {position} must have `placeholders` and `output`, nothing else"
            )
        try:
            placeholders.check(each["placeholders"])
            shown = source.render(placeholders.filled(each["placeholders"]), _MAX_PART_CHARACTERS)
        except PlaceholdersRefused as error:
            raise BadTemplate(where, f"few_shot {position}: {error}") from error
        examples.append(Example(shown, _text(where, "output", each["output"])))
    return tuple(examples)


def _digest(value: object) -> str:
    return blake2b(json.dumps(value, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()
