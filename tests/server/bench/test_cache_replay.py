"""The replay of the caches, small: every tier that was asked answers, and nothing is ever answered wrongly."""

from pathlib import Path

import pytest

from halfline.api.serving import Loaded
from halfline.bench.cache_replay import replay_caches
from halfline.bench.cache_report import draw, summary
from halfline.bench.cache_requests import Place, drawn
from halfline.cli.loading import assemble
from halfline.cli.model_parts import find_model, load_parts
from halfline.settings import load_settings

FUNCTIONS = [
    Place(
        "library",
        f"{name}.py",
        f"def {name}({one}, {two}):\n    total = {one}\n    for each in {two}:\n        ",
        "\n",
    )
    for name, one, two in (("add", "first", "others"), ("mul", "start", "factors"), ("cat", "head", "tail"))
]


@pytest.mark.parametrize(
    "count", [16, pytest.param(600, marks=pytest.mark.nightly)], ids=["some requests", "many requests"]
)
def test_no_answer_of_any_tier_is_wrong(embedded_model: Path, tmp_path: Path, count: int) -> None:
    settings = load_settings(
        {
            "model": str(embedded_model),
            "cache_dir": tmp_path,
            "kv_bytes": "128MiB",
            "cache.disk_bytes": "16MiB",
            "cache.syntax": "on",
            "cache.semantic": "on",
            "warmup.share": 0.0,
        }
    )

    def load() -> Loaded:
        return assemble(settings, load_parts(settings, find_model(settings))).loaded

    replayed = replay_caches(load, drawn(FUNCTIONS, count, seed=2), 8, lambda asked: None)
    found = summary(replayed)
    tiers = found["tiers"]
    assert isinstance(tiers, dict)
    assert {"miss", "exact", "http"} <= set(tiers)
    assert found["false_hits"] == 0 and sum(replayed.num_checked.values()) == count
    draw(replayed, tmp_path / "cache.png")
    assert (tmp_path / "guesses").exists() and (tmp_path / "answers.sqlite").exists()
