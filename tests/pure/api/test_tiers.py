"""Where an answer came from: told in a header, in the receipt and in the metrics."""

from dataclasses import dataclass

import pytest

from halfline.request import Tier
from halfline.telemetry.metrics import Metrics

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("tier", "shown"), [("miss", "miss"), ("typed", "typed"), ("continued", "miss")])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_header_says_typed_only_where_nothing_was_computed(
    on_stage, tier: Tier, shown: str, stream: bool
) -> None:
    async with on_stage() as stage:
        stage.pipeline.tier = tier
        reply = await stage.complete(prompt="x", max_tokens=2, stream=stream)
        assert reply.headers["X-Cache"] == shown
        both = await stage.complete(prompt=["x", "y"], max_tokens=2)
        assert both.headers["X-Cache"] == shown


@pytest.mark.parametrize(
    ("control", "caching"),
    [
        ("", "use"),
        ("no-cache", "refresh"),
        ("max-age=0", "refresh"),
        ("No-Store", "none"),
        ("no-cache, no-store", "none"),
        ("max-stale=5, only-if-cached", "use"),
    ],
)
async def test_cache_control_is_heeded_in_every_dialect(on_stage, control: str, caching: str) -> None:
    async with on_stage() as stage:
        headers = {"Cache-Control": control}
        bodies = {"/v1/completions": {"prompt": "x"}, "/completion": {"prompt": "x", "n_predict": 2}}
        for path, body in bodies.items():
            reply = await stage.client.post(path, json=body, headers=headers)
            assert reply.status_code == 200, reply.text
        assert [request.caching for request in stage.pipeline.requests] == [caching] * 2


async def test_cache_control_may_come_in_several_lines(on_stage) -> None:
    async with on_stage() as stage:
        headers = [("Cache-Control", "max-stale=5"), ("Cache-Control", "no-store")]
        reply = await stage.client.post("/v1/completions", json={"prompt": "x"}, headers=headers)
        assert reply.status_code == 200, reply.text
        assert [request.caching for request in stage.pipeline.requests] == ["none"]


async def test_an_answer_whose_time_was_up_may_go_on(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.ends_with = "deadline"
        reply = (await stage.complete(prompt="x", max_tokens=2, deadline_ms=5)).json()
        assert reply["choices"][0]["finish_reason"] == "length"
        why = (await stage.client.get(f"/v1/completions/{reply['id']}/why")).json()
        assert why["finish_reasons"] == ["deadline"]


async def test_metrics_count_answers_by_tier_and_what_was_known_or_in_vain(on_stage) -> None:
    async with on_stage() as stage:
        for tier in ("miss", "typed", "typed", "continued"):
            stage.pipeline.tier = tier
            await stage.complete(prompt="x", max_tokens=2)
        metrics = (await stage.client.get("/metrics")).text
    assert 'halfline_answers_total{tier="typed"} 2.0' in metrics
    assert 'halfline_answers_total{tier="continued"} 1.0' in metrics
    assert 'halfline_answers_total{tier="miss"} 1.0' in metrics
    assert "halfline_known_tokens_total 6.0" in metrics
    assert "halfline_unshown_tokens_total 4.0" in metrics


@dataclass(frozen=True, slots=True)
class Ahead:
    num_computed_ahead: int = 10
    num_used_ahead: int = 4


def test_metrics_say_how_much_of_what_was_computed_ahead_was_used() -> None:
    metrics = Metrics()
    metrics.watch_ahead(Ahead)
    text = metrics.exposition().decode()
    assert 'halfline_ahead_tokens_total{kind="computed"} 10.0' in text
    assert 'halfline_ahead_tokens_total{kind="used"} 4.0' in text
