"""A template's file: its parts, what it takes from another version, and what cannot be used."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_dots_in_texts_are_no_parts_of_keys() -> None:
    for quote in (b'"', b"'", b'"""', b"'''"):
        text = quote + b"." * 200 + quote
        assert read(FIRST.replace(b'"Say it."', text)).task == "." * 200
    assert read(FIRST + b"# " + b"." * 200)


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
        (b'summary = "Say it"', b"a." * 100_000 + b"a = 1", "a key has more than 64 parts"),
        (b'summary = "Say it"', b'x = """""""", ' + b"a." * 100 + b'a = ""', "a key has more than 64 parts"),
        (b'summary = "Say it"', b"#" * 300_000, "the limit is 262144"),
        (b'role = "You say things."', b"weight = 0x" + b"f" * 5000, "`weight` is too large to be shown"),
        (b'role = "You say things."', b"max_tokens = 0x" + b"f" * 5000, "`max_tokens` is too large to be"),
        (b'role = "You say things."', b"based_on = [0x" + b"f" * 5000 + b"]", "`based_on` is too large to"),
        (b'required = ["words"]', b'required = [["a"]]', "`required` a list of names"),
        (b'words = "hello"', b"words = 0x" + b"f" * 5000, "few_shot 0: `placeholders` have a number of more"),
        (b"{{ words }}", b"{{ 0x" + b"f" * 5000 + b" }}", "cannot be shown"),
        (b"{{ words }}", b"{{ " + b"9" * 5000 + b" }}", "`input`: "),
        (b"{{ words }}", b"{{ 1e400 }}", "cannot be shown"),
        (b"{{ words }}", rb'{{ "\ud800" }}', "cannot be shown"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(old: bytes, new: bytes, reason: str) -> None:
    assert old in FIRST
    with pytest.raises(BadTemplate, match=r"the task template say/1: ") as refused:
        read(FIRST.replace(old, new), loop=b'based_on = "loop"')
    assert reason in str(refused.value)


ODD = (
    *(b"0x" + b"f" * 5000, b"-1", b"1e400", b"nan", b"true", b"''", b"'x'", b"1979-05-27", b"07:32:00"),
    *(b"[]", b"[[]]", b"['a']", b"[['a']]", b"[0x" + b"f" * 5000 + b"]", b"{}", b"{ a = 1 }", b"[{}]"),
    *(b"[" * 400 + b"]" * 400, b"{ a = " * 300 + b"1" + b"}" * 300, b"{ " + b"a." * 500 + b"a = 1 }"),
    *(b"'{{ words }}{{ 1e400 }}'", b"'{% for a in words %}{% endfor %}'", rb'"\u0000"', b"'\xff'"),
)
REPLACED = (
    b'"Say it"',
    b'"Say it."',
    b'"hello"',
    b'["words"]',
    b'"words"',
    b"true",
    b'"HELLO"',
    b'"boolean"',
)
ADDED = (b"based_on", b"asked_as", b"weight", b"max_tokens", b"stop", b"unknown")
WORDS = (
    b"enum",
    b"const",
    b"default",
    b"items",
    b"properties",
    b"required",
    b"maximum",
    b"minLength",
    b"title",
)


def only_bad(data: bytes) -> None:
    """What is read can be used to its end."""
    with contextlib.suppress(BadTemplate):
        template = read(data, **{"1": FIRST, "x": data})
        assert template.digest
        with contextlib.suppress(PlaceholdersRefused):
            template.placeholders.check({"words": "x"})
            template.text({"words": "x"}, 1000)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:12].decode(errors="replace"))
def test_an_odd_value_anywhere_is_refused_and_nothing_worse(odd: bytes) -> None:
    for old in REPLACED:
        assert old in FIRST
        only_bad(FIRST.replace(old, odd, 1))
    for name in ADDED:
        only_bad(name + b" = " + odd + FIRST)
    for name in (b"placeholders", b"few_shot", b"input", b"role"):
        only_bad(FIRST.replace(name + b" =", name + b" = " + odd + b"\n#", 1))
    for word in WORDS:
        only_bad(FIRST.replace(b'type = "string"', word + b" = " + odd))
        only_bad(FIRST.replace(b"{ required", b"{ " + word + b" = " + odd + b", required"))


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.integers(0, len(FIRST)), st.integers(0, 30), st.sampled_from(ODD) | st.binary(max_size=4)
        ),
        max_size=3,
    )
)
def test_a_mutilated_file_is_refused_and_nothing_worse(changes: list[tuple[int, int, bytes]]) -> None:
    data = FIRST
    for start, length, new in changes:
        data = data[:start] + new + data[start + length :]
    only_bad(data)
