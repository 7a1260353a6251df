"""Chats: OpenAI's POST /v1/chat/completions, turned into a `CompletionRequest` by the model's own template."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field

from halfline.api.call import Arrival
from halfline.api.chat_template import Message
from halfline.api.dialects.chat_messages import MessagesField, read_messages
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.sampling_fields import (
    STOP_SHAPE,
    SamplingFields,
    either,
    sampling_params,
)
from halfline.api.dialects.unserved import refuse_unserved
from halfline.errors import BadRequest, PromptTooLong, UnsupportedField
from halfline.request import CompletionRequest, Priority, SamplingParams

_SHAPES = {"stop": STOP_SHAPE, "priority": f"it must be one of {', '.join(get_args(Priority))}"}


_Most = Annotated[int, Field(ge=-2, le=2**31 - 1)]


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    include_usage: bool | None = None


class ChatBody(SamplingFields):
    """The JSON body. Types are strict: a number in quotes is a mistake, not a number."""

    model_config = ConfigDict(
        strict=True, extra="allow", allow_inf_nan=False, json_schema_extra={"required": ["messages"]}
    )

    model: str | None = Field(None, description="Any name; the model served is reported in the reply.")
    messages: MessagesField = None
    max_tokens: _Most | None = Field(None, description="Below 0, as llama-server's clients say: not said.")
    max_completion_tokens: _Most | None = Field(None, description="The same as `max_tokens`.")
    n_predict: _Most | None = Field(
        None, description="The same as `max_tokens`, by llama-server's name; 0 only computes the prompt."
    )
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    user: str | None = Field(None, max_length=1024, description="Whose request it is, for fair shares.")
    priority: Priority | None = None
    deadline_ms: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    tools: Annotated[
        Any, Field(description="None are called: only an empty list, or `tool_choice` none.")
    ] = None
    tool_choice: Any = None

    @property
    def num_wanted(self) -> int | None:
        """New tokens at most, under any of its names; None: not said."""
        named = (self.max_tokens, self.max_completion_tokens, self.n_predict)
        return next((wanted for wanted in named if wanted is not None and wanted >= 0), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCall:
    """A chat understood, and how its reply is wanted."""

    id: str
    request: CompletionRequest
    streams: bool
    includes_usage: bool
    shows_logprobs: bool


def read_chat(body: bytes, arrival: Arrival) -> ChatCall:
    """Raises BadRequest."""
    given = read_body(ChatBody, body, _SHAPES)
    refuse_unserved(given.model_extra or {})
    if given.tools and given.tool_choice != "none":
        raise UnsupportedField(
            "tools", f"a list of {len(given.tools)}" if isinstance(given.tools, list) else "…", []
        )
    logprobs = (given.top_logprobs or 0) if given.logprobs else None
    request = chat_request(
        read_messages(given.messages),
        arrival,
        sampling_params(given, arrival.options, logprobs),
        max_tokens=given.num_wanted,
        num_choices=either(given.n, 1),
        user=given.user or "",
        # A warm-up: welcome when nobody types.
        priority=given.priority or ("idle" if given.num_wanted == 0 else "interactive"),
        deadline_ms=given.deadline_ms,
    )
    return ChatCall(
        id=arrival.call_id,
        request=request,
        streams=bool(given.stream),
        includes_usage=given.stream_options is not None and bool(given.stream_options.include_usage),
        shows_logprobs=bool(given.logprobs),
    )


def chat_request(
    messages: Sequence[Message],
    arrival: Arrival,
    params: SamplingParams,
    *,
    max_tokens: int | None,
    num_choices: int = 1,
    user: str = "",
    priority: Priority = "interactive",
    deadline_ms: int | None = None,
) -> CompletionRequest:
    """`max_tokens` None: `api.chat_max_tokens`, and never more than there is room for.

    Raises BadRequest for messages that the template refuses, PromptTooLong for such that leave no room.
    """
    if num_choices > arrival.options.max_choices:
        raise BadRequest(f"`n` is {num_choices}, the limit is {arrival.options.max_choices}", "n")
    token_ids = arrival.loaded.chat.token_ids(messages, arrival.loaded.model.max_context)
    wanted = either(max_tokens, arrival.options.chat_max_tokens)
    room = arrival.loaded.model.max_context - len(token_ids)
    if room < min(wanted, 1):
        raise PromptTooLong(len(token_ids), max_tokens, arrival.loaded.model.max_context, field="messages")
    return CompletionRequest(
        id=arrival.call_id,
        prompt=token_ids,
        params=params,
        max_tokens=min(wanted, room),
        num_choices=num_choices,
        tenant=arrival.tenant,
        user=user,
        priority=priority,
        deadline_ms=deadline_ms,
    )
