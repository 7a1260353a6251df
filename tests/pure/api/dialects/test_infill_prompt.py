"""A prompt with infill markers is the document that it was made from; any other text is only a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfline.api.dialects.infill_prompt import read_infill_prompt
from halfline.request import Document, Part


@pytest.mark.parametrize(
    "prompt",
    [
        "<|fim_prefix|>a\nb<|fim_suffix|>c\n<|fim_middle|>",
        "<|fim_prefix|><|fim_suffix|>c\n<|fim_middle|>a\nb",
        "<fim_prefix>a\nb<fim_suffix>c\n<fim_middle>",
        "<fim-prefix>a\nb<fim-suffix>c\n<fim-middle>",
        "<｜fim▁begin｜>a\nb<｜fim▁hole｜>c\n<｜fim▁end｜>",
        "<PRE> a\nb <SUF>c\n <MID>",
        "<|code_prefix|>a\nb<|code_suffix|>c\n<|code_middle|>",
        "<[fim-suffix]>c\n<[fim-prefix]>a\nb<[fim-middle]>",
        "[SUFFIX]c\n[PREFIX]a\nb",
    ],
)
def test_every_family_s_template_is_read(prompt) -> None:
    assert read_infill_prompt(prompt) == Document("a\nb", "c\n")


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "def f(x):",
        "<|fim_prefix|>a<|fim_suffix|>b",
        "a<|fim_middle|>",
        "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>and more",
        'MARKERS = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")',
        "x [SUFFIX] y [PREFIX]",
        "<|fim_prefix|>a<fim_suffix>b<fim_middle>",
    ],
)
def test_what_is_no_whole_template_is_a_text(prompt) -> None:
    assert read_infill_prompt(prompt) is None


def test_other_files_before_the_template_become_parts_and_the_last_one_s_path_is_the_document_s() -> None:
    prompt = (
        "<|repo_name|>team/shapes\n<|file_sep|>a.py\nx = 1\n<|file_sep|>b.py\ny = 2\n<|file_sep|>src/c.py\n"
        "<|fim_prefix|>before<|fim_suffix|>behind<|fim_middle|>"
    )
    parts = (Part("x = 1\n", "a.py"), Part("y = 2\n", "b.py"))
    assert read_infill_prompt(prompt) == Document("before", "behind", "src/c.py", parts)


def test_comments_before_the_template_stay_before_the_text() -> None:
    prompt = "# Path: a.py\n<fim_prefix>before<fim_suffix>behind<fim_middle>"
    assert read_infill_prompt(prompt) == Document("# Path: a.py\nbefore", "behind")


def test_a_file_that_speaks_of_markers_can_be_completed() -> None:
    inside = 'A = "<fim_suffix>"\n'
    prompt = f"<fim_prefix>{inside}<fim_suffix>behind<fim_middle>"
    assert read_infill_prompt(prompt) == Document(inside, "behind")


@given(st.text(alphabet="ab \n<>|", max_size=40), st.text(alphabet="ab \n<>|", max_size=40))
def test_every_document_comes_back(prefix, suffix) -> None:
    prompt = f"<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>"
    assert read_infill_prompt(prompt) == Document(prefix, suffix)
