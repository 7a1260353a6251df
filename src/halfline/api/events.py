"""POST and GET /v1/events: what became of answers that were shown, and what that says about showing them."""

from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from halfline.api.answering import Answering
from halfline.api.dialects.json_body import read_body
from halfline.api.dialects.tabby_server import TabbyEvent, read_event
from halfline.api.schema import BodySchema
from halfline.api.tenants import tenant_of
from halfline.context.templates.outcomes import TaskOutcomes
from halfline.errors import BadRequest
from halfline.telemetry.feedback import Event, EventKind, Feedback, kept_rate, propose
from halfline.telemetry.metrics import Metrics

_KINDS: dict[str, EventKind] = {"view": "shown", "select": "accepted", "dismiss": "dismissed"}

_USUAL_RATE = "0.3"  # where the client asks for none

_KEPT_RATE = {
    "parameters": [{"name": "kept_rate", "in": "query", "schema": {"type": "string", "default": _USUAL_RATE}}]
}


class EventBody(BaseModel):
    """`characters` of the answer were accepted, where that is known."""

    model_config = ConfigDict(strict=True, extra="ignore")

    completion_id: str = Field(max_length=256)
    kind: EventKind
    characters: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None


def events_router(
    answering: Answering, feedback: Feedback, metrics: Metrics, tasks: TaskOutcomes
) -> APIRouter:
    router = APIRouter()

    @router.post("/v1/events", openapi_extra=BodySchema(EventBody, TabbyEvent), response_class=Response)
    async def event(request: Request) -> Response:
        """An answer was shown, accepted or dismissed; in our shape or in Tabby's. Unknown ones count nowhere."""
        told = read(await request.body())
        tenant = tenant_of(request)
        receipt = answering.serving.loaded.pipeline.receipt(told.completion_id)
        if receipt is not None and receipt.tenant == tenant:
            feedback.record(tenant, told, receipt.confidence)
        elif answering.running.runs(told.completion_id, tenant):  # shown before its end
            feedback.record(tenant, told, None)
        else:
            return Response()
        tasks.told(tenant, told.completion_id, told.kind)
        metrics.suggestion(told.kind, told.characters or 0, kept_rate(feedback.fates()) or 0.0)
        return Response()

    @router.get("/v1/events", openapi_extra=_KEPT_RATE)
    async def summary(request: Request) -> Response:
        """How many answers were kept, and the `min_confidence` from which on `kept_rate` of them would have been."""
        wanted_rate = _share(request.query_params.get("kept_rate", _USUAL_RATE))
        fates = feedback.fates_of(tenant_of(request))
        proposal = propose(fates, wanted_rate)
        return JSONResponse(
            {
                "shown": len(fates),
                "accepted": sum(fate.accepted for fate in fates),
                "kept_rate": kept_rate(fates),
                "proposal": None
                if proposal is None
                else {
                    "min_confidence": proposal.min_confidence,
                    "kept_rate": proposal.kept_rate,
                    "shown_share": proposal.shown_share,
                    "answers": proposal.num_answers,
                },
            }
        )

    return router


def _share(text: str) -> float:
    refusal = BadRequest(f"`kept_rate` is {text[:40]!r}, it must be between 0 and 1", "kept_rate")
    try:
        share = float(text)
    except ValueError:
        raise refusal from None
    if not 0.0 <= share <= 1.0:
        raise refusal
    return share


def read(body: bytes) -> Event:
    """Raises BadRequest. Tabby says `type` where we say `kind`."""
    if b'"type"' in body and b'"kind"' not in body:
        tabby = read_event(body)
        return Event(tabby.completion_id, _KINDS[tabby.type])
    given = read_body(EventBody, body, {"kind": "it must be shown, accepted or dismissed"})
    return Event(given.completion_id, given.kind, given.characters)
