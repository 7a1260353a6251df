"""What `halfline quality infilling` cannot do is said in one sentence, before a model is loaded."""

from pathlib import Path

from typer.testing import CliRunner

from halfline.cli.main import app

_DATA = Path(__file__).parents[3] / "bench" / "data"


def test_what_is_no_setting_or_no_suite_is_one_sentence(tmp_path: Path) -> None:
    for arguments, sentence in (
        (("--data", str(tmp_path)), "--data"),
        (("--data", str(_DATA), "--baseline", "fast"), "'fast' is no setting"),
        (("--data", str(_DATA), "--baseline", "pipeline.fast=1"), "pipeline"),
    ):
        result = CliRunner().invoke(app, ["quality", "infilling", "--limit", "1", *arguments])
        assert result.exit_code == 2
        assert sentence in result.stderr
