"""A task's input shows its placeholders and does nothing else: no files, no calls, no endless way."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halfline.context.templates.sandbox import InputTemplate
from halfline.errors import BadTemplate, PlaceholdersRefused

NAMES = frozenset(("code", "rows", "note"))


def shown(source: str, max_characters: int = 10_000, **values: object) -> str:
    given = dict.fromkeys(NAMES) | values
    return InputTemplate("t/1", source, NAMES).render(given, max_characters)


@pytest.mark.parametrize(
    ("source", "values", "text"),
    [
        ("{{ code }}", {"code": "<a & b>\n"}, "<a & b>\n"),
        ("[{{ note }}]", {}, "[]"),
        ("{{ note | default('none') }}", {"note": ""}, "none"),
        (
            "{% for row in rows %}{{ loop.index }}{{ row.name }};{% endfor %}",
            {"rows": [{"name": "a"}] * 2},
            "1a;2a;",
        ),
        ("{% for row in rows %}{{ row }}{% else %}no{% endfor %}", {}, "no"),
        ("{% for row in rows if row %}{{ row }}{% endfor %}", {"rows": [1, 0, 2]}, "12"),
        ("{{ 'a' if rows else 'b' }}{{ rows is none }}", {}, "btrue"),
        (
            "{{ rows | join(', ') }}{{ rows | first }}{{ rows[1] }}{{ rows | length }}",
            {"rows": ["x", "y"]},
            "x, yxy2",
        ),
        ("{{ code | trim | upper | indent(2) }}", {"code": " a\nb "}, "A\n  B"),
        ("{{ 1 < 2 <= rows[0] > 3 }}{{ 1 < 2 != 3 < 3 }}", {"rows": [9]}, "truefalse"),
        (
            "{{ code in 'xay' }}{{ code not in rows }}{{ 'k' in rows[1] }}",
            {"code": "a", "rows": ["a", {"k": 1}]},
            "truefalsetrue",
        ),
        (
            "{{ rows == rows }}{{ rows != note }}{{ 'a' >= code }}",
            {"code": "b", "rows": [[1]]},
            "truetruefalse",
        ),
    ],
)
def test_what_a_template_may_say(source: str, values: dict[str, object], text: str) -> None:
    assert shown(source, **values) == text


@pytest.mark.parametrize(
    "source",
    [
        "{% include '/etc/passwd' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{{ range(10) }}",
        "{{ code.format(1) }}",
        "{{ code() }}",
        "{% set x = code %}",
        "{% macro m() %}{% endmacro %}",
        "{{ 9 ** 9 ** 9 ** 9 }}",
        "{{ code * 1000000 }}",
        "{{ code ~ code }}",
        "{{ code | replace('a', 'b') }}",
        "{{ code | pprint }}",
        "{% for a in rows recursive %}{% endfor %}",
        "{{ other }}",
        "{{ _budget }}",
        "{{ self }}",
        "{{ rows[code] }}",
        "{% if %}",
        "{{ code",
        "{{ " + "(" * 5000 + "code" + ")" * 5000 + " }}",
        "{% for a in rows %}" * 40 + "{% endfor %}" * 40,
        "{{ not " * 1 + "not " * 200 + "code }}",
    ],
)
def test_what_it_may_not_is_found_before_it_runs(source: str) -> None:
    with pytest.raises(BadTemplate, match="t/1"):
        InputTemplate("t/1", source, NAMES)


@pytest.mark.parametrize(
    "source",
    [
        "{{ code.__class__ }}",
        "{{ code.upper }}",
        "{{ rows.append }}",
        "{{ rows.0.__init__ }}",
        "{{ loop_of.x }}".replace("loop_of", "note"),
        "{% for row in rows %}{{ loop.__class__ }}{{ loop.cycle }}{% endfor %}",
        "{{ rows }}",
        "{% for letter in code %}{{ letter }}{% endfor %}",
        "{{ code | indent(1000000000) }}",
    ],
)
def test_values_have_no_insides(source: str) -> None:
    with pytest.raises(PlaceholdersRefused, match="cannot be shown"):
        shown(source, code="a", rows=[1])


def test_a_loop_pays_for_its_turns_before_it_begins() -> None:
    loops = "{% for a in rows %}{% for b in rows %}{% for c in rows %}{% endfor %}{% endfor %}{% endfor %}"
    with pytest.raises(PlaceholdersRefused, match="more than 100000 steps"):
        shown(loops, rows=[0] * 5000)


def test_a_filter_pays_for_what_it_reads() -> None:
    with pytest.raises(PlaceholdersRefused, match="steps"):
        shown(
            "{% for a in rows %}{{ code | upper | length }}{% endfor %}", rows=[0] * 50, code="a" * 1_000_000
        )
    with pytest.raises(PlaceholdersRefused, match="steps"):
        shown("{{ rows | join(code) | length }}", rows=["x"] * 5_000, code="a" * 1_000_000)


@pytest.mark.parametrize(
    "condition", ["note in code", "code == rows[0]", "code < rows[0]", "rows == rows", "note in rows"]
)
def test_a_comparison_pays_for_what_it_could_look_at(condition: str) -> None:
    twice = "{% for a in rows %}{% for b in rows %}{% if X %}y{% endif %}{% endfor %}{% endfor %}"
    rows = ["a" * 100_000, *range(100)]
    with pytest.raises(PlaceholdersRefused, match="steps"):
        shown(twice.replace("X", condition), rows=rows, note="a" * 1000 + "b", code="a" * 100_000)


def test_a_search_that_may_take_long_is_refused_unsearched() -> None:
    assert shown("{{ 'needle' in code }}", code="a" * 100_000) == "false"
    with pytest.raises(PlaceholdersRefused, match="steps"):
        shown("{{ note in code }}", note="b" + "a" * 500_000, code="a" * 1_000_000)


def test_a_turn_pays_for_all_that_is_in_it_but_for_its_loops() -> None:
    rows = [0] * 1000
    assert shown("{% for a in rows %}{{ note }}{% endfor %}", rows=rows) == ""
    assert shown("{{ note }}" * 500 + "{% for a in rows %}{% endfor %}", rows=rows) == ""
    with pytest.raises(PlaceholdersRefused, match="steps"):
        shown("{% for a in rows %}" + "{{ note }}" * 500 + "{% endfor %}", rows=rows * 2)


def test_the_text_ends_at_its_limit() -> None:
    assert shown("{{ code }}", 5, code="abcde") == "abcde"
    with pytest.raises(PlaceholdersRefused, match="more than 5 characters"):
        shown("{% for a in rows %}{{ code }}{% endfor %}", 5, code="abc", rows=[0] * 1000)


@settings(deadline=None, max_examples=60)
@given(st.text(), st.text(alphabet=string.printable))
def test_a_value_is_shown_as_it_is_whatever_it_spells(value: str, note: str) -> None:
    assert shown("<{{ code }}|{{ note }}>", 1 << 20, code=value, note=note) == f"<{value}|{note}>"


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="{}%# abrowscdef.|()[]'_0-", max_size=60))
def test_any_source_is_a_template_or_refused(source: str) -> None:
    try:
        template = InputTemplate("t/1", source, NAMES)
    except BadTemplate:
        return
    try:
        template.render({"code": "x", "rows": [1], "note": None}, 1000)
    except PlaceholdersRefused:
        return
