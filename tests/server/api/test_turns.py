"""A real server with the embedded model: who leaves stops costing, newer replaces older, equals are computed once."""

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

LONG = "".join(f"def function_{number}(x):\n    return x + {number}\n\n" for number in range(120))
TICKS_S = 1.0 / os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Processor time the process has used, all its threads together."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICKS_S


def sequences(server, state: str) -> float:
    return server.metric(f'halfline_sequences{{state="{state}"}}')


async def reached(server, state: str, count: int) -> None:
    deadline = time.monotonic() + 60
    while await asyncio.to_thread(sequences, server, state) != count:
        assert time.monotonic() < deadline, f"never were {count} {state}"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def connected(server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
        yield client


async def post(client: httpx.AsyncClient, **body: object) -> httpx.Response:
    return await client.post("/v1/completions", json=body)


async def stream(client: httpx.AsyncClient, begun: asyncio.Event, **body: object) -> list[dict[str, Any]]:
    """All events; `begun` is set at the first."""
    events = []
    async with client.stream("POST", "/v1/completions", json={**body, "stream": True}) as reply:
        assert reply.status_code == 200
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                events.append(json.loads(line[6:]))
                begun.set()
    return events


async def why(client: httpx.AsyncClient, completion_id: str) -> dict[str, Any]:
    return (await client.get(f"/v1/completions/{completion_id}/why")).raise_for_status().json()


async def cost_of_a_short_request(server, client: httpx.AsyncClient, seed: int) -> float:
    before = cpu_s(server.process.pid)
    prompt = f"# {seed}\n{LONG[:600]}"
    (await post(client, prompt=prompt, max_tokens=24, ignore_eos=True)).raise_for_status()
    return cpu_s(server.process.pid) - before


def test_eight_long_generations_that_are_dropped_stop_costing_and_the_next_request_costs_what_it_always_does(
    server,
) -> None:
    async def main() -> None:
        async with connected(server) as client:
            usual = [await cost_of_a_short_request(server, client, seed) for seed in range(5)]
            begun = [asyncio.Event() for _ in range(8)]
            tasks = [
                asyncio.create_task(
                    stream(
                        client, each, prompt=f"# {n}", max_tokens=4000, ignore_eos=True, temperature=1, seed=n
                    )
                )
                for n, each in enumerate(begun)
            ]
            for each in begun:
                await each.wait()
            before = cpu_s(server.process.pid)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await reached(server, "running", 0)
            dropped = cpu_s(server.process.pid)
            # A step of eight rows takes tens of milliseconds, a thousand of them would take a minute.
            assert dropped - before < 1.0
            await asyncio.sleep(1.5)
            assert cpu_s(server.process.pid) - dropped < 0.1, "an idle server"
            after = [await cost_of_a_short_request(server, client, seed) for seed in range(100, 105)]
            # Nine rows in a step cost several times as much; a busy machine makes a lone one half as dear again.
            assert statistics.median(after) < 2.0 * statistics.median(usual)

    asyncio.run(main())


def test_eight_typists_who_each_wait_for_their_answer_are_answered_equally_often(server) -> None:
    """In the same time, so that what a keystroke takes is the same for all; counted, not clocked."""
    num_answers = dict.fromkeys(range(8), 0)

    async def type_away(client: httpx.AsyncClient, typist: int) -> None:
        text = f"# {typist}\n{LONG[:60]}"
        while sum(num_answers.values()) < 64:
            text += "ab_"[num_answers[typist] % 3]
            reply = await post(client, prompt=text, max_tokens=3, ignore_eos=True, user=f"typist {typist}")
            reply.raise_for_status()
            num_answers[typist] += 1

    async def main() -> None:
        async with connected(server) as client:
            await asyncio.gather(*(type_away(client, typist) for typist in num_answers))

    asyncio.run(main())
    assert max(num_answers.values()) <= 2 * min(num_answers.values()), num_answers


@pytest.fixture(scope="module")
def narrow(start_server: Callable[..., Any]) -> Any:
    """A server that runs one sequence at a time, lets two wait, reads all of a document at once, which takes a second,
    and computes nothing of its own accord: steps are counted.
    """
    return start_server(
        HALFLINE_ENGINE__MAX_NUM_SEQS="1",
        HALFLINE_ENGINE__MAX_WAITING="2",
        HALFLINE_PIPELINE__FRESH_PREFIX_TOKENS="2048",
        HALFLINE_PIPELINE__GROWN_PREFIX_TOKENS="2048",
        HALFLINE_PIPELINE__PREFIX_TOKENS="2048",
        HALFLINE_WARMUP__SHARE="0",
    ).wait_until_ready()


@pytest.mark.parametrize("stage", ["queue", "prefill", "decode"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_newer_request_of_the_same_cursor_ends_the_older_one(narrow, stage: str, streamed: bool) -> None:
    """Whose prompts are new to the server: every case types into another file."""
    name = f"{stage}_{streamed}"
    cursor = {
        "user": "ann",
        "metadata": {"path": f"{name}.py"},
        "ignore_eos": True,
        "postprocess": False,  # its rules would end an answer that goes on for long
    }
    # In decode the prompt is short, else it takes the better part of a second to compute.
    text = LONG.replace("function", name)[: 200 if stage == "decode" else None]

    async def main() -> None:
        async with connected(narrow) as client:
            blocking = asyncio.Event()
            blocker = None
            if stage == "queue":
                blocker = asyncio.create_task(
                    stream(client, blocking, prompt=name, max_tokens=60, ignore_eos=True)
                )
                await blocking.wait()
            body = {"prompt": text, "max_tokens": 2000, **cursor}
            steps_before = narrow.metric("halfline_steps_total")
            named = {"X-Request-Id": f"older_{name}"}
            if streamed:
                older = asyncio.create_task(stream(client, asyncio.Event(), **body))
            else:
                older = asyncio.create_task(client.post("/v1/completions", json=body, headers=named))
            match stage:
                case "queue":
                    await reached(narrow, "waiting", 1)
                case "prefill":
                    await reached(narrow, "running", 1)
                case "decode":
                    # Two steps compute the prompt, the others give a token each.
                    while narrow.metric("halfline_steps_total") < steps_before + 10:
                        await asyncio.sleep(0.005)
            newer = await post(client, prompt=text + "x", max_tokens=4, **cursor)
            assert newer.json()["choices"][0]["finish_reason"] == "length"
            assert "x-halfline-superseded" not in newer.headers
            result = await older
            if streamed:
                reply = result[-1]
                shown = "".join(event["choices"][0]["text"] for event in result)
            else:
                assert result.status_code == 200
                assert result.headers["x-halfline-superseded"] == "1"
                reply = result.json()
                shown = reply["choices"][0]["text"]
            assert reply["superseded"] is True
            assert reply["choices"][0]["finish_reason"] == "length"
            assert bool(shown) == (stage == "decode")
            receipt = await why(client, reply["id"])
            assert receipt["finish_reasons"] == ["superseded"]
            match stage:
                case "queue":
                    assert receipt["num_computed_tokens"] == 0
                case "prefill":
                    assert receipt["num_computed_tokens"] < receipt["num_prompt_tokens"]
                case "decode":
                    assert 0 < receipt["num_generated_tokens"] < 2000
            if blocker is not None:
                await blocker

    asyncio.run(main())


def test_equal_requests_in_flight_are_computed_once(server) -> None:
    body = {"prompt": "# the same for all\n", "max_tokens": 60, "ignore_eos": True}

    async def main() -> None:
        async with connected(server) as client:
            begun = asyncio.Event()
            first = asyncio.create_task(stream(client, begun, **body))
            await begun.wait()
            others = await asyncio.gather(*(post(client, **body) for _ in range(3)))
            events = await first
            text = "".join(event["choices"][0]["text"] for event in events)
            assert [reply.json()["choices"][0]["text"] for reply in others] == [text] * 3
            receipts = [await why(client, reply.json()["id"]) for reply in others]
            assert [receipt["coalesced_with"] for receipt in receipts] == [events[0]["id"]] * 3
            assert sum(receipt["num_computed_tokens"] for receipt in receipts) == 0

    asyncio.run(main())


def test_a_running_completion_is_called_off_by_the_name_its_client_gave_it(server) -> None:
    async def main() -> None:
        async with connected(server) as client:
            body = {"prompt": "# call me off\n", "max_tokens": 3000, "ignore_eos": True}
            task = asyncio.create_task(
                client.post("/v1/completions", json=body, headers={"X-Request-Id": "long-one"})
            )
            await reached(server, "running", 1)
            cancelled = await client.post("/v1/completions/long-one/cancel")
            assert cancelled.json() == {"id": "long-one", "cancelled": True}
            reply = (await task).json()
            assert reply["choices"][0]["finish_reason"] == "cancelled"
            assert reply["usage"]["completion_tokens"] < 3000
            assert (await client.post("/v1/completions/long-one/cancel")).status_code == 404

    asyncio.run(main())


def test_more_than_may_wait_are_told_when_to_come_back_and_idle_ones_first(narrow) -> None:
    async def main() -> None:
        async with connected(narrow) as client:
            begun = asyncio.Event()
            body = {"max_tokens": 40, "ignore_eos": True}
            running = asyncio.create_task(stream(client, begun, prompt="# runs\n", **body))
            await begun.wait()
            idle = await post(client, prompt="# idle\n", priority="idle", **body)
            assert idle.status_code == 429
            waiting = [asyncio.create_task(post(client, prompt=f"# waits {n}\n", **body)) for n in range(2)]
            await reached(narrow, "waiting", 2)
            refused = await post(client, prompt="# too many\n", **body)
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            assert refused.json()["error"]["code"] == "overloaded"
            await running
            assert [(await each).status_code for each in waiting] == [200, 200]

    asyncio.run(main())


def test_scores_are_the_same_warm_and_cold_to_the_last_bit(server) -> None:
    body = {"prompt": LONG[:800], "echo": True, "logprobs": 2, "max_tokens": 0}

    async def main() -> None:
        async with connected(server) as client:
            cold = (await post(client, **body)).json()["choices"][0]["logprobs"]
            (await post(client, prompt=LONG[:800], max_tokens=4)).raise_for_status()
            warm = (await post(client, **body)).json()["choices"][0]["logprobs"]
            assert warm == cold
            assert len(cold["token_logprobs"]) > 100

    asyncio.run(main())
