"""The routes of tasks: what there is, and having one done by its name or by what is said of it."""

import asyncio
from importlib.util import find_spec

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from halfline.api.answering import Answering
from halfline.api.call import Arrival, Call
from halfline.api.dialects.task_body import (
    AskedTaskBody,
    TaskBody,
    TaskCall,
    TaskReply,
    read_asked_task,
    read_task,
)
from halfline.api.reading_lane import ReadingLane
from halfline.api.schema import BodySchema
from halfline.api.task_prompts import TaskPrompts
from halfline.api.tenants import tenant_of
from halfline.cache.embedding import StaticVectors
from halfline.context.templates.outcomes import TaskOutcomes
from halfline.context.templates.similarity import Embeds
from halfline.context.templates.task_template import TaskTemplate

_QUERY = {"parameters": [{"name": "query", "in": "query", "schema": {"type": "string", "maxLength": 4096}}]}


def tasks_router(answering: Answering, outcomes: TaskOutcomes) -> APIRouter:
    router = APIRouter()
    made: list[TaskPrompts] = []  # once the model is there
    lane = ReadingLane(inline_bytes=0)  # a short body can name a task whose prompt takes long to make

    async def prompts() -> TaskPrompts:
        """With the tasks looked for in a thread: files are read the first time, and whenever they change."""
        loaded = answering.serving.loaded
        if not made:
            made.append(TaskPrompts(loaded.tasks, loaded.chat, _learned_embedding(), loaded.chunks))
        await asyncio.to_thread(loaded.tasks.tasks)
        return made[0]

    @router.get("/v1/tasks", openapi_extra=_QUERY)
    async def list_tasks(request: Request) -> Response:
        """Every task with its versions, their placeholders and what became of your answers by them; with a `query` the
        most similar to it first.
        """
        query = request.query_params.get("query")
        known = await prompts()
        return JSONResponse(await asyncio.to_thread(_listed, known, outcomes, tenant_of(request), query))

    @router.post("/v1/tasks", openapi_extra=BodySchema(AskedTaskBody))
    async def run_asked_task(request: Request) -> Response:
        """Have done what `task` asks for in words: by the most similar task, or 404 where none is."""
        known = await prompts()

        def read(body: bytes, arrival: Arrival) -> Call:
            return _call(read_asked_task(body, arrival, known), arrival, outcomes)

        return await answering.answer(request, read, id_prefix="task", lane=lane)

    @router.post("/v1/tasks/{name}", openapi_extra=BodySchema(TaskBody))
    async def run_task(request: Request, name: str) -> Response:
        """Have a task done: its template with your placeholders, by the model's own chat template."""
        known = await prompts()

        def read(body: bytes, arrival: Arrival) -> Call:
            return _call(read_task(name, body, arrival, known), arrival, outcomes)

        return await answering.answer(request, read, id_prefix="task", lane=lane)

    return router


def _learned_embedding() -> Embeds | None:
    """What the extra `semantic` brings; None without it."""
    if find_spec("wordllama") is None or find_spec("faiss") is None:
        return None
    return StaticVectors()


def _call(call: TaskCall, arrival: Arrival, outcomes: TaskOutcomes) -> Call:
    outcomes.asked(arrival.tenant, arrival.call_id, call.task, call.version)
    reply = TaskReply(call, arrival.loaded.model.name, arrival.created)
    return Call(
        id=arrival.call_id, requests=(call.request,), reply=reply, stream=reply if call.streams else None
    )


def _listed(
    prompts: TaskPrompts, outcomes: TaskOutcomes, tenant: str, query: str | None
) -> dict[str, object]:
    tasks = prompts.library.tasks()
    similarity = {} if query is None else {found.task: found.similarity for found in prompts.find(query)}
    data = []
    for name in similarity or tasks:
        versions = [_described(each, outcomes, tenant) for each in tasks[name].versions.values()]
        data.append(
            {"name": name, "versions": versions} | ({"similarity": similarity[name]} if similarity else {})
        )
    return {"object": "list", "data": data}


def _described(template: TaskTemplate, outcomes: TaskOutcomes, tenant: str) -> dict[str, object]:
    return {
        "version": template.version,
        "summary": template.summary,
        "weight": template.weight,
        "digest": template.digest,
        "parts": dict(template.parts),
        "placeholders": dict(template.placeholders.schema),
        "outcomes": dict(outcomes.counts(tenant, template.name, template.version)),
    }
