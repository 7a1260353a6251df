"""A template's file: its parts, what it takes from another version, and what cannot be used."""

import pytest

from halfline.context.templates.task_template import TaskTemplate, read_template
from halfline.errors import BadTemplate, PlaceholdersRefused

FIRST = b"""
summary = "Say it"
role = "You say things."
task = "Say it."
constraint = "Briefly."
input = '''

Say: {{ words }}{% if loud %}!{% endif %}

'''
placeholders = { required = ["words"], properties = { words = { type = "string" }, loud = { type = "boolean" } } }
few_shot = [{ placeholders = { words = "hello", loud = true }, output = "HELLO" }]
"""


def read(data: bytes, **bases: bytes) -> TaskTemplate:
    return read_template("say", "1", data, bases)


def test_everything_but_the_input_is_constant() -> None:
    template = read(FIRST)
    assert template.instructions == "You say things.\n\nSay it.\n\nBriefly."
    assert [(each.input, each.output) for each in template.examples] == [("Say: hello!", "HELLO")]
    assert template.text({"words": "a {{ b }}"}, 100) == "Say: a {{ b }}"
    with pytest.raises(PlaceholdersRefused):
        template.text({"words": "a" * 100}, 100)


def test_a_version_based_on_another_shares_the_digests_of_what_it_does_not_say() -> None:
    first = read(FIRST)
    second = read(b'based_on = "1"\nconstraint = "At length."\nweight = 2', **{"1": FIRST})
    third = read(
        b'based_on = "2"\nsummary = "Say it anew"', **{"1": FIRST, "2": b'based_on = "1"\nweight = 2'}
    )
    assert {name for name in first.parts if first.parts[name] != second.parts[name]} == {"constraint"}
    assert (second.digest != first.digest, second.weight) == (True, 2.0)
    # What the model is shown is the same: a summary is for people.
    assert (third.digest, third.summary) == (first.digest, "Say it anew")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'summary = "Say it"', b"", "`summary` is missing"),
        (b'task = "Say it."', b"", "`task` is missing"),
        (b'role = "You say things."', b"role = 3", "`role` must be a text"),
        (b'role = "You say things."', b'rule = "x"', "unknown names: rule"),
        (b'role = "You say things."', b'based_on = "9"', "`based_on` is '9'"),
        (b'role = "You say things."', b'based_on = "loop"', "`based_on` is 'loop'"),
        (b'role = "You say things."', b"weight = -1", "`weight` is -1"),
        (b'role = "You say things."', b"weight = nan", "`weight` is nan"),
        (b'role = "You say things."', b"max_tokens = 0", "`max_tokens` is 0"),
        (b'role = "You say things."', b"stop = 'x'", "`stop` must be a list"),
        (b"{{ words }}", b"{{ wards }}", "'wards', which is no placeholder"),
        (b'words = "hello"', b'wards = "hello"', "few_shot 0: `placeholders.wards` is unknown"),
        (b'output = "HELLO"', b"output = 1", "`output` must be a text"),
        (b', output = "HELLO"', b"", "few_shot 0 must have"),
        (b'summary = "Say it"', b"summary = ", "no TOML"),
        (b'summary = "Say it"', b"\xff", "no TOML"),
        (b'summary = "Say it"', b"#" * 300_000, "the limit is 262144"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(old: bytes, new: bytes, reason: str) -> None:
    assert old in FIRST
    with pytest.raises(BadTemplate, match=r"the task template say/1: ") as refused:
        read(FIRST.replace(old, new), loop=b'based_on = "loop"')
    assert reason in str(refused.value)
