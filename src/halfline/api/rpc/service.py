"""halfline.v1.Completions: each call from its metadata to its status.

The head is judged first; the message has to come in time and is read then; what runs ends with the client's call. That
is why a call of one message is served as a stream of one: gRPC would read the message before it asks us anything.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
from google.protobuf.message import Message
from starlette.datastructures import Headers

from halfline.api.admission import Admission
from halfline.api.answering import Answering, Asker, Begun
from halfline.api.failures import error_message
from halfline.api.keys.key import Key
from halfline.api.observed import request_id_of
from halfline.api.rpc import halfline_pb2 as pb
from halfline.api.rpc.codes import code_of, trailers_of
from halfline.api.rpc.native_body import read_native
from halfline.api.rpc.native_reply import NativeReply
from halfline.api.tenants import NO_KEY_ID, WITHOUT_KEY
from halfline.errors import BadRequest, BodyTooSlow, HalflineError, Overloaded
from halfline.telemetry.log import fields

_log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
T = TypeVar("T")

# Of what is there at once nobody knows yet how long it takes.
_RETRY_AFTER_S = 1.0

SERVICE = pb.DESCRIPTOR.services_by_name["Completions"].full_name


class CompletionService:
    """Answers as HTTP does, by the same parts, and at most `max_calls` at once, of all connections together."""

    def __init__(
        self,
        answering: Answering,
        admission: Admission,
        max_calls: int,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._answering = answering
        self._admission = admission
        self._max_calls = max_calls
        self._num_calls = 0
        self._clock = clock

    def handler(self) -> grpc.GenericRpcHandler:
        """What a server is given."""
        handlers: dict[str, Any] = {
            "Complete": grpc.stream_unary_rpc_method_handler(self._complete, None, _serialized),
            "StreamComplete": grpc.stream_stream_rpc_method_handler(self._stream, None, _serialized),
        }
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    async def _complete(self, messages: AsyncIterator[bytes], context: Context) -> Message:
        async def answer(begun: Begun, reply: NativeReply) -> Message:
            return reply.whole(await self._answering.whole(begun, None))

        return await self._answered("Complete", messages, context, answer)

    async def _stream(self, messages: AsyncIterator[bytes], context: Context) -> None:
        async def answer(begun: Begun, reply: NativeReply) -> None:
            try:
                await self._answering.live.run(self._send_events(begun, reply, context), None)
            finally:
                begun.ended()

        await self._answered("StreamComplete", messages, context, answer)

    async def _send_events(self, begun: Begun, reply: NativeReply, context: Context) -> None:
        pipeline, (request,) = begun.loaded.pipeline, begun.call.requests
        async with aclosing(pipeline.stream(request)) as deltas:
            async for delta in deltas:
                if delta.finish_reason == "failed":
                    raise begun.loaded.engine_failed()
                await self._send(reply.delta(delta), context)
        receipt = pipeline.receipt(request.id)
        if receipt is not None:
            await self._send(reply.end(receipt), context)

    async def _send(self, event: Message, context: Context) -> None:
        """Raises TimeoutError for a client that has stopped reading."""
        async with asyncio.timeout(self._answering.options.send_timeout_s):
            await context.write(event)

    async def _answered(
        self,
        method: str,
        messages: AsyncIterator[bytes],
        context: Context,
        answer: Callable[[Begun, NativeReply], Awaitable[T]],
    ) -> T:
        """What `answer` gives, or the status of what it raises; counted and logged either way."""
        headers = headers_of(context.invocation_metadata() or ())
        request_id = request_id_of(headers)
        started, code = self._clock(), grpc.StatusCode.CANCELLED  # unless it comes to an end
        try:
            await context.send_initial_metadata((("x-request-id", request_id),))
            key = self._admission.key_of(headers)
            with self._call(), self._place(key):
                body = await self._message(messages)
                asker = Asker(
                    tenant=WITHOUT_KEY if key is None else key.tenant,
                    key_id=NO_KEY_ID if key is None else key.id,
                    headers=headers,
                    source=_address(context.peer()),
                    request_id=request_id,
                )
                begun = await self._answering.begin(body, read_native, asker)
                assert isinstance(begun.call.reply, NativeReply)
                answered = await answer(begun, begun.call.reply)
            code = grpc.StatusCode.OK
            return answered
        except TimeoutError:
            code = grpc.StatusCode.CANCELLED  # which nobody will read
            await context.abort(code, "the client stopped reading")
        except Exception as error:
            code = code_of(error)
            if not isinstance(error, HalflineError):
                _log.exception("request broke", extra=fields(request_id=request_id))
            await context.abort(code, error_message(error), trailers_of(error))
        finally:
            self._account(method, request_id, code, self._clock() - started)

    @contextmanager
    def _call(self) -> Iterator[None]:
        """Raises Overloaded."""
        if self._num_calls >= self._max_calls:
            raise Overloaded(self._num_calls, self._max_calls, _RETRY_AFTER_S)
        self._num_calls += 1
        try:
            yield
        finally:
            self._num_calls -= 1

    @contextmanager
    def _place(self, key: Key | None) -> Iterator[None]:
        """Raises OverLimit."""
        if key is None:
            yield
            return
        self._admission.enter(key)
        try:
            yield
        finally:
            self._admission.leave(key)

    async def _message(self, messages: AsyncIterator[bytes]) -> bytes:
        """The one message of the call. Raises BodyTooSlow, and BadRequest where there is none."""
        timeout_s = self._answering.options.body_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                return await anext(messages)
        except TimeoutError:
            raise BodyTooSlow(0, timeout_s) from None
        except StopAsyncIteration:
            raise BadRequest("the call ended without a message") from None

    def _account(self, method: str, request_id: str, code: grpc.StatusCode, seconds: float) -> None:
        route = f"/{SERVICE}/{method}"
        self._answering.metrics.answered(route, code.name, seconds)
        told = fields(request_id=request_id, method="gRPC", route=route, status=code.name, ms=seconds * 1000)
        _log.info("request", extra=told)


def headers_of(metadata: Iterable[tuple[str, str | bytes]]) -> Headers:
    """Of a call's metadata what is text, under the names that gRPC has made lower case."""
    raw = [(name.encode(), value.encode()) for name, value in metadata if isinstance(value, str)]
    return Headers(raw=raw)


def _address(peer: str) -> str:
    """The machine of `ipv4:10.0.0.7:51234`, `ipv6:[::1]:51234`, `unix:…`: its port is another at each connection."""
    family, _, address = unquote(peer).partition(":")
    return address.rpartition(":")[0].strip("[]") if family in ("ipv4", "ipv6") else ""


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
