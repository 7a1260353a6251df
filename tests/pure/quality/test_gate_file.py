"""quality.toml is read whole or refused, and ours says what a release has to stand."""

from pathlib import Path

import pytest

from halfline.cli.quality_suites import SUITE_NAMES
from halfline.errors import BadSettings
from halfline.quality.configuration import read_configuration
from halfline.quality.gate_file import read_gate_file
from halfline.quality.proofs import lossy
from halfline.quality.regression_test import LOSSLESS_MEAN_KL, LOSSY_MEAN_KL
from halfline.settings import load_settings

ARM = """
[margins.tight]
mean_kl = 1e-6

[arms.one]
about = "…"
baseline = ""
candidate = "kv_format=int8"
suites = ["texts"]
n = 3
margins = "tight"
required = false
"""


def test_our_gates_hold_lossless_and_lossy_to_the_thresholds_that_are_named() -> None:
    file = read_gate_file()
    assert file.margins["lossless"].limits["mean_kl"] == LOSSLESS_MEAN_KL
    assert file.margins["lossy"].limits["mean_kl"] == LOSSY_MEAN_KL
    assert (file.arm("identity").baseline, file.arm("identity").candidate) == ("", "")
    for arm in file.arms.values():
        assert set(arm.suites) <= set(SUITE_NAMES)
        for words in (arm.baseline, arm.candidate):
            load_settings(read_configuration(words))  # names settings that there are
        assert lossy(load_settings(read_configuration(arm.baseline)).model_dump(mode="json")) == {}
        # What a release has to stand loses nothing, what may lose something is proved by name.
        assert arm.required == (
            lossy(load_settings(read_configuration(arm.candidate)).model_dump(mode="json")) == {}
        )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("n = 3", "n = true"), "arms.one.n is True, it must be a int"),
        (("n = 3", "n = 0"), "at least one suite"),
        (("required = false", "required = 0"), "arms.one.required is 0, it must be a bool"),
        (("n = 3\n", ""), "'n' is missing"),
        (("n = 3", "n = 3\nm = 4"), "'m' is unknown"),
        (('"tight"', '"loose"'), "no margins 'loose'"),
        (("mean_kl", "lk"), "no metric 'lk'"),
        (("[margins.tight]", "[limits.tight]"), "unknown table 'limits'"),
        (("1e-6", "="), "cannot be read"),
        (("1e-6", "[" * 10_000), "cannot be read"),
        (("mean_kl = 1e-6\n", ""), "margins.tight sets no limit"),
        (("[margins.tight]\nmean_kl = 1e-6", "margins = ['tight']"), "it must be a table"),
        (
            ("[margins.tight]\nmean_kl = 1e-6", "[margins]\ntight = 3"),
            "margins.tight is 3, it must be a table",
        ),
        (("[arms.one]", "[arms]\ntwo = 1\n[arms.one]"), "arms.two is 1, it must be a table"),
    ],
)
def test_a_file_that_says_something_else_is_refused(
    tmp_path: Path, change: tuple[str, str], sentence: str
) -> None:
    file = tmp_path / "gates.toml"
    file.write_text(ARM)
    assert read_gate_file(file).arm("one").n == 3
    file.write_text(ARM.replace(*change))
    with pytest.raises(BadSettings, match=sentence):
        read_gate_file(file)


def test_an_arm_or_margins_that_are_not_there_are_named() -> None:
    with pytest.raises(BadSettings, match="no arm 'x'; there are identity"):
        read_gate_file().arm("x")
    with pytest.raises(BadSettings, match="no margins 'x'; there are lossless"):
        read_gate_file().margins_named("x")
