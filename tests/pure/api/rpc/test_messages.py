"""What a request says in the service's messages, and its answers: the same as over HTTP."""

import pytest

from halfline.api.rpc import halfline_pb2 as pb
from halfline.request import Bounds, Document, Identity, Part, SamplingParams, Schedule

pytestmark = pytest.mark.anyio


async def test_a_completion_is_what_the_pipeline_said_with_its_receipt(on_port) -> None:
    request = pb.CompletionRequest(
        text="def f", max_tokens=3, num_choices=2, sampling=pb.Sampling(logprobs=1, temperature=0.5)
    )
    async with on_port() as port:
        told = await port.complete(request)
    assert told.model == "letters" and told.id.startswith("cmpl-")
    assert [(each.index, each.text, each.finish_reason) for each in told.choices] == [
        (0, "abc", pb.LENGTH),
        (1, "abc", pb.LENGTH),
    ]
    assert list(told.choices[0].token_ids) == [0, 1, 2]
    first = told.choices[0].logprobs[0]
    assert (first.text, first.logprob, first.top[0].text) == ("a", -1.0, "A")
    assert told.receipt.request_id == told.id
    assert (told.receipt.num_prompt_tokens, told.receipt.total_ms, told.receipt.tier) == (5, 6.0, "miss")


async def test_a_stream_is_deltas_and_then_the_receipt(on_port) -> None:
    async with on_port() as port:
        events = [event async for event in port.stream()]
    assert [event.WhichOneof("event") for event in events] == ["delta"] * 3 + ["receipt"]
    assert "".join(event.delta.text for event in events) == "abc"
    assert [event.delta.finish_reason for event in events[:3]] == [0, 0, pb.LENGTH]
    assert {event.id for event in events} == {events[-1].receipt.request_id}


async def test_every_field_arrives_as_the_request_has_it(on_port) -> None:
    request = pb.CompletionRequest(
        document=pb.Document(
            prefix="a", suffix="b", path="x.py", parts=[pb.Part(text="p", path="y.py"), pb.Part(text="q")]
        ),
        max_tokens=4,
        user="ann",
        priority=pb.BATCH,
        deadline_ms=50,
        postprocess=False,
        min_confidence=0.5,
        bounds=pb.Bounds(min_indent=4, line_time_ms=100),
        sampling=pb.Sampling(
            temperature=0.7,
            top_p=0.9,
            min_p=0.1,
            presence_penalty=1.0,
            frequency_penalty=-1.0,
            repetition_penalty=1.5,
            top_k=5,
            logit_bias={3: -2.0},
            seed=2**64 - 1,
            stop=["x", "y"],
            stop_token_ids=[7],
            ignore_eos=True,
            logprobs=2,
        ),
    )
    async with on_port() as port:
        await port.complete(request)
        (asked,) = port.stage.pipeline.requests
    assert asked.prompt == Document("a", "b", "x.py", (Part("p", "y.py"), Part("q")))
    assert asked.params == SamplingParams(
        temperature=0.7,
        top_k=5,
        top_p=0.9,
        min_p=0.1,
        repetition_penalty=1.5,
        presence_penalty=1.0,
        frequency_penalty=-1.0,
        logit_bias={3: -2.0},
        seed=2**64 - 1,
        logprobs=2,
        stop=("x", "y"),
        stop_token_ids=(7,),
        ignore_eos=True,
    )
    assert (asked.max_tokens, asked.user, asked.priority, asked.deadline_ms) == (4, "ann", "batch", 50)
    assert (asked.postprocess, asked.min_confidence) == (False, 0.5)
    assert asked.bounds == Bounds(min_indent=4, line_time_ms=100)
    assert asked.identity == Identity("local", "ann", "x.py")


async def test_what_is_left_out_has_the_profile_s_value_and_replaces_nobody(on_port) -> None:
    async with on_port() as port:
        await port.complete(pb.CompletionRequest(document=pb.Document(prefix="a"), max_tokens=0))
        await port.complete(pb.CompletionRequest(token_ids=pb.TokenIds(ids=[1, 2])))
        schedule = pb.Schedule(by="entropy", k_max=30)
        high = pb.Sampling(profile="high-quality", do_sample=True, schedule=schedule)
        await port.complete(pb.CompletionRequest(text="", max_tokens=1, sampling=high))
        editor, raw, scheduled = port.stage.pipeline.requests
    assert (editor.max_tokens, editor.priority, editor.identity) == (0, "interactive", None)
    assert editor.prompt == Document("a", "", None, (), "127.0.0.1")
    assert (raw.prompt, raw.max_tokens, raw.params) == ((1, 2), 128, SamplingParams())
    assert scheduled.params.schedule == Schedule(by="entropy", k_max=30)
