"""Copilot's POST /v1/engines/{model}/completions: OpenAI's completions of old, with what an editor knows beside.

Always editor mode. What its client asks before anybody has typed (`X-Copilot-Speculative`) gives way to what is typed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.call import Arrival
from halfline.api.dialects.openai_body import (
    CompletionBody,
    CompletionCall,
    completion_call,
    parse_completion,
)
from halfline.errors import BadRequest
from halfline.request import CompletionRequest, Document, Part

_TOKEN_LASTS_S = 30 * 60


class _Extra(BaseModel):
    """The rest of it steers Copilot's own server: indentation is ours to trim, tokens are ours to count."""

    model_config = ConfigDict(extra="ignore")

    context: Annotated[list[str], Field(max_length=1024)] | None = None


class CopilotBody(CompletionBody):
    """OpenAI's fields, and `extra`."""

    extra: _Extra | None = Field(None, description="`context`: pieces of other files.")


def read_copilot(body: bytes, arrival: Arrival) -> CompletionCall:
    """Raises BadRequest."""
    parsed = parse_completion(CopilotBody, body)
    if not isinstance(parsed.prompt, str):
        raise BadRequest("`prompt`: it must be a text", "prompt")
    parsed.suffix = parsed.suffix or ""
    model = arrival.loaded.model
    call = completion_call(parsed, arrival.call_id, arrival.tenant, arrival.options, model.max_context)
    parts = tuple(Part(text) for text in (parsed.extra.context if parsed.extra else None) or ())
    speculative = arrival.headers.get("x-copilot-speculative", "").lower() in ("true", "1")
    return replace(
        call, requests=tuple(_with_context(request, parts, speculative) for request in call.requests)
    )


def token(now: int) -> Mapping[str, object]:
    """What its client asks for before its first completion, at `now` in seconds since 1970. The token stands for
    nothing: where keys are wanted, it is none.
    """
    return {"token": "none", "expires_at": now + _TOKEN_LASTS_S, "refresh_in": _TOKEN_LASTS_S - 5 * 60}


def _with_context(
    request: CompletionRequest, parts: tuple[Part, ...], speculative: bool
) -> CompletionRequest:
    assert isinstance(request.prompt, Document)
    return replace(
        request,
        prompt=replace(request.prompt, parts=parts),
        priority="batch" if speculative else request.priority,
    )
