"""POST /v1/tasks/{name} and POST /v1/tasks: a task's placeholders, and how its answer is wanted."""

from dataclasses import dataclass
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

from halfline.api.call import Arrival
from halfline.api.dialects.chat_reply import ChatReply
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.sampling_fields import STOP_SHAPE, Count, SamplingFields, either, sampling_params
from halfline.api.task_prompts import TaskPrompts
from halfline.context.templates.placeholders import check_finite
from halfline.errors import BadRequest, PromptTooLong
from halfline.request import CompletionRequest, Part, Priority

_SHAPES = {"stop": STOP_SHAPE, "priority": f"it must be one of {', '.join(get_args(Priority))}"}


class ContextFile(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    text: str
    path: str | None = Field(None, max_length=4096)


class TaskBody(SamplingFields):
    """The JSON body. Types are strict: a number in quotes is a mistake, not a number."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    placeholders: dict[str, Any] | None = Field(None, description="By the task's schema in GET /v1/tasks.")
    context: Annotated[list[ContextFile], Field(max_length=64, fail_fast=True)] | None = Field(
        None,
        description="Other files, for the placeholder `context`: the parts of them that share names, as fit.",
    )
    version: str | None = Field(
        None, max_length=64, description="Left out: the one that falls to this `user`, always the same."
    )
    max_tokens: Count | None = Field(None, description="Left out: as the template says.")
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    stream: bool | None = None
    user: str | None = Field(None, max_length=1024, description="Whose request it is.")
    priority: Priority | None = None
    deadline_ms: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None

    @field_validator("placeholders")
    @classmethod
    def _are_finite(cls, values: dict[str, Any] | None) -> dict[str, Any] | None:
        """While the body is read, whose own refusal of what is no JSON number could not say where it stands."""
        check_finite(values or {})
        return values


class AskedTaskBody(TaskBody):
    """The same without a name."""

    model_config = ConfigDict(json_schema_extra={"required": ["task"]})

    task: str | None = Field(
        None, max_length=4096, description="In your own words; the most similar task is run."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall:
    """A task understood, and how its reply is wanted."""

    request: CompletionRequest
    task: str
    version: str
    streams: bool


def read_task(name: str, body: bytes, arrival: Arrival, prompts: TaskPrompts) -> TaskCall:
    """Raises BadRequest, PlaceholdersRefused and UnknownTask among it."""
    return _call(name, read_body(TaskBody, body, _SHAPES), arrival, prompts)


def read_asked_task(body: bytes, arrival: Arrival, prompts: TaskPrompts) -> TaskCall:
    """The task that its `task` is most similar to. Raises as `read_task`."""
    given = read_body(AskedTaskBody, body, _SHAPES)
    if not given.task:
        raise BadRequest("`task`: say what you want in a few words", "task")
    return _call(prompts.asked_for(given.task), given, arrival, prompts)


def _call(name: str, given: TaskBody, arrival: Arrival, prompts: TaskPrompts) -> TaskCall:
    num_choices = either(given.n, 1)
    if num_choices > arrival.options.max_choices:
        raise BadRequest(f"`n` is {num_choices}, the limit is {arrival.options.max_choices}", "n")
    user = given.user or ""
    template = prompts.template(name, given.version, arrival.tenant, user)
    limit = arrival.loaded.model.max_context
    files = [Part(each.text, each.path) for each in given.context or ()]
    prompt = prompts.prompt(template, given.placeholders or {}, limit, files)
    by_template = either(template.max_tokens, arrival.options.chat_max_tokens)
    wanted = either(given.max_tokens, by_template)
    room = limit - len(prompt.token_ids)
    if room < min(wanted, 1):
        raise PromptTooLong(len(prompt.token_ids), given.max_tokens, limit, field="placeholders")
    if given.stop is None and template.stop:
        given = given.model_copy(update={"stop": list(template.stop)})
    request = CompletionRequest(
        id=arrival.call_id,
        prompt=prompt.token_ids,
        params=sampling_params(given, arrival.options, None),
        max_tokens=min(wanted, room),
        num_choices=num_choices,
        tenant=arrival.tenant,
        user=user,
        priority=given.priority or "interactive",
        deadline_ms=given.deadline_ms,
        num_pinned_tokens=prompt.num_head,
    )
    return TaskCall(request=request, task=name, version=template.version, streams=bool(given.stream))


class TaskReply(ChatReply):
    """A chat's answer that says, whole and in each event of a stream, which version of which task it was."""

    def __init__(self, call: TaskCall, model: str, created: int) -> None:
        super().__init__(call.request.id, model, created, call.request.num_choices, includes_usage=True)
        self._envelope |= {"task": call.task, "version": call.version}
