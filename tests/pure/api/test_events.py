"""Editors tell what became of answers; the server counts, and says what it counted."""

import asyncio
from dataclasses import replace

import pytest

pytestmark = pytest.mark.anyio


async def test_what_is_told_in_our_shape_and_in_tabbys_is_counted_together(on_stage) -> None:
    async with on_stage() as stage:
        first, second = [(await stage.complete(prompt="x", max_tokens=1)).json()["id"] for _ in range(2)]
        ours = {"completion_id": first, "kind": "accepted", "characters": 7}
        assert (await stage.client.post("/v1/events", json=ours)).status_code == 200
        for kind in ("view", "dismiss"):
            tabbys = {"type": kind, "completion_id": second, "choice_index": 0, "elapsed": 3}
            assert (await stage.client.post("/v1/events", json=tabbys)).status_code == 200
        summary = (await stage.client.get("/v1/events")).json()
        metrics = (await stage.client.get("/metrics")).text
    assert summary == {"shown": 2, "accepted": 1, "kept_rate": 0.5, "proposal": None}
    assert 'halfline_suggestions_total{kind="accepted"} 1.0' in metrics
    assert 'halfline_suggestions_total{kind="shown"} 1.0' in metrics
    assert "halfline_suggestion_characters_total 7.0" in metrics
    assert "halfline_suggestions_kept_ratio 0.5" in metrics


async def test_what_is_told_of_answers_that_nobody_was_given_is_taken_and_not_counted(on_stage) -> None:
    async with on_stage() as stage:
        answer = (await stage.complete(prompt="x", max_tokens=1)).json()["id"]
        receipt = stage.pipeline.receipts[answer]
        stage.pipeline.receipts["another-s"] = replace(receipt, tenant="another")
        for name in ("made-up", "another-s"):
            for kind in ("shown", "accepted"):
                told = await stage.client.post("/v1/events", json={"completion_id": name, "kind": kind})
                assert told.status_code == 200
        summary = (await stage.client.get("/v1/events")).json()
        metrics = (await stage.client.get("/metrics")).text
    assert (summary["shown"], summary["accepted"]) == (0, 0)
    assert "halfline_suggestions_total{" not in metrics


async def test_an_answer_that_is_still_written_may_be_shown_already(on_stage) -> None:
    async with on_stage() as stage:
        stage.pipeline.gate = asyncio.Event()
        running = asyncio.ensure_future(stage.complete(prompt="x", max_tokens=2))
        while not stage.pipeline.requests:
            await asyncio.sleep(0)
        event = {"completion_id": stage.pipeline.requests[0].id, "kind": "shown"}
        await stage.client.post("/v1/events", json=event)
        stage.pipeline.gate.set()
        await running
        assert (await stage.client.get("/v1/events")).json()["shown"] == 1


async def test_the_proposal_knows_how_sure_the_model_was_of_each_answer(on_stage) -> None:
    async with on_stage() as stage:
        for number in range(100):
            answer = (await stage.complete(prompt="x", max_tokens=1)).json()["id"]
            receipt = stage.pipeline.receipts[answer]
            stage.pipeline.receipts[answer] = replace(receipt, confidence=number / 100)
            kind = "accepted" if number >= 50 else "dismissed"
            await stage.client.post("/v1/events", json={"completion_id": answer, "kind": kind})
        proposal = (await stage.client.get("/v1/events?kept_rate=1")).json()["proposal"]
    assert proposal == {"min_confidence": 0.5, "kept_rate": 1.0, "shown_share": 0.5, "answers": 100}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"completion_id": "c", "kind": "loved"}, "kind"),
        ({"completion_id": "c" * 300, "kind": "shown"}, "completion_id"),
        ({"kind": "shown"}, "completion_id"),
        ({"completion_id": "c", "kind": "accepted", "characters": -1}, "characters"),
        ({"completion_id": "c", "type": "loved"}, "type"),
    ],
)
async def test_what_is_no_event_is_refused_by_its_field(on_stage, body, param) -> None:
    async with on_stage() as stage:
        reply = await stage.client.post("/v1/events", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("rate", ["x", "1.5", "nan", ""])
async def test_a_kept_rate_is_a_share(on_stage, rate) -> None:
    async with on_stage() as stage:
        reply = await stage.client.get("/v1/events", params={"kept_rate": rate})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "kept_rate")
