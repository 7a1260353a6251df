"""`halfline complete` without a server: an engine in this process, for one completion."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

from halfline.cli.completion_output import print_costs, write_text
from halfline.cli.loading import Ready, assemble
from halfline.cli.model_parts import find_model, load_parts
from halfline.cli.start_up import settle
from halfline.errors import HalflineError
from halfline.request import ChoiceDelta, CompletionRequest, Document, Receipt
from halfline.settings import Settings


def complete_here(
    settings: Settings, document: Document, max_tokens: int | None, profile_name: str | None
) -> None:
    """Load the model into this process, complete, free it. Raises HalflineError."""
    # Before the model: what is wrong with the request needs no weights to be found.
    profile = settings.api.find_profile(profile_name)
    request = CompletionRequest(
        id=f"cmpl-{uuid.uuid4().hex}",
        prompt=document,
        params=profile.params,
        max_tokens=profile.max_new_tokens if max_tokens is None else max_tokens,
    )
    ready = assemble(settings, load_parts(settings, find_model(settings)))
    settle()
    try:
        asyncio.run(print_answer(ready, request))
    finally:
        ready.loaded.close()


async def print_answer(ready: Ready, request: CompletionRequest) -> None:
    """The text as it comes, then what it cost. Raises what the pipeline refuses with."""
    await _print_deltas(ready.pipeline.stream(request))
    receipt = ready.pipeline.receipt(request.id)
    if receipt is None:
        raise HalflineError("the completion ended without a receipt")
    print_costs(_numbers(receipt), f"loading the model {ready.load_s * 1000:.0f} ms, ")


async def _print_deltas(deltas: AsyncIterator[ChoiceDelta]) -> None:
    async for delta in deltas:
        write_text(delta.text)


def _numbers(receipt: Receipt) -> Mapping[str, Any]:
    names = ("num_prompt_tokens", "num_reused_tokens", "num_generated_tokens")
    times = ("queue_ms", "prefill_ms", "decode_ms", "total_ms")
    return {name: getattr(receipt, name) for name in names + times}
