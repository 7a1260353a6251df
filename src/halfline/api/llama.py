"""The routes of llama-server: completions, infilling, tokens, and what it tells of itself."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from halfline.api.answering import Answering
from halfline.api.call import Arrival, Call
from halfline.api.dialects.llama_body import (
    InfillBody,
    LlamaCall,
    LlamaCompletionBody,
    read_completion,
    read_infill,
)
from halfline.api.dialects.llama_reply import LlamaReply, llama_failure
from halfline.api.dialects.llama_tools import (
    DetokenizeBody,
    TemplateBody,
    TokenizeBody,
    detokenized,
    props,
    slots,
    templated,
    tokenized,
)
from halfline.api.failing import failing_with
from halfline.api.reading_lane import ReadingLane
from halfline.api.schema import BodySchema
from halfline.errors import BadRequest, NotNow

# Sequences are not bound to places here; this many are shown to clients that count them.
_NUM_SLOTS = 4


def llama_router(answering: Answering) -> APIRouter:
    router = APIRouter(route_class=failing_with(llama_failure))
    serving = answering.serving
    lane = ReadingLane(inline_bytes=1 << 14)  # millions of tokens are counted for as long as that takes

    @router.post("/infill", openapi_extra=BodySchema(InfillBody, streams=LlamaReply.media_type))
    async def infill(request: Request) -> Response:
        """Complete at a cursor: what stands before it, behind it, and in other files."""
        return await answering.answer(request, _read_infill)

    @router.post("/completions", openapi_extra=BodySchema(LlamaCompletionBody, streams=LlamaReply.media_type))
    @router.post("/completion", openapi_extra=BodySchema(LlamaCompletionBody, streams=LlamaReply.media_type))
    async def completion(request: Request) -> Response:
        """Complete a prompt, in which special tokens are read."""
        return await answering.answer(request, _read_completion)

    @router.post("/tokenize", openapi_extra=BodySchema(TokenizeBody))
    async def tokenize(request: Request) -> Response:
        """The tokens of a text."""
        told = await lane.read(await request.body(), tokenized, serving.loaded)
        return Response(told, media_type="application/json")

    @router.post("/detokenize", openapi_extra=BodySchema(DetokenizeBody))
    async def detokenize(request: Request) -> Response:
        """The text of tokens."""
        return JSONResponse(await answering.computed(request, detokenized))

    @router.post("/apply-template", openapi_extra=BodySchema(TemplateBody))
    async def apply_template(request: Request) -> Response:
        """The prompt that the model's chat template makes of messages."""
        return JSONResponse(await answering.computed(request, templated))

    @router.get("/props")
    async def properties() -> Response:
        """The model's context and templates."""
        return JSONResponse(props(serving.loaded, version("halfline"), _NUM_SLOTS))

    @router.get("/slots")
    async def places(fail_on_no_slot: str = "") -> Response:
        """How many sequences run, and nothing of what they hold."""
        loaded = serving.loaded
        state = loaded.engine_state()
        if fail_on_no_slot not in ("", "0", "false") and state.num_running >= _NUM_SLOTS:
            raise NotNow(f"all {_NUM_SLOTS} slots are busy; try again in a second", 1.0)
        return JSONResponse(slots(state, loaded, _NUM_SLOTS))

    @router.post("/slots/{slot_id}")
    async def slot(slot_id: str, action: str = "") -> Response:
        """Refused: what is computed is kept by its contents, not by places (`kv_disk_bytes` keeps it on disk)."""
        raise BadRequest(
            "no slot is saved, restored or erased here: KV is found again by its contents, whoever asks, and"
            " `kv_disk_bytes` keeps it over a restart",
            "action",
        )

    return router


def _read_infill(body: bytes, arrival: Arrival) -> Call:
    return _call(read_infill(body, arrival), arrival)


def _read_completion(body: bytes, arrival: Arrival) -> Call:
    return _call(read_completion(body, arrival), arrival)


def _call(call: LlamaCall, arrival: Arrival) -> Call:
    reply = LlamaReply(call, arrival.loaded.model.name, arrival.loaded.tokenizer)
    return Call(
        id=arrival.call_id,
        requests=call.requests,
        reply=reply,
        stream=reply if call.given.stream else None,
    )
