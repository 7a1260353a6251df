"""The gRPC port: what listens there, for as long as the application lives, on its event loop."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from halfline.api.admission import Admission
from halfline.api.answering import Answering
from halfline.api.app import Beside
from halfline.api.options import ApiOptions
from halfline.api.rpc.codes import code_of, trailers_of
from halfline.api.rpc.health import HEALTH, Health
from halfline.api.rpc.service import SERVICE, CompletionService, headers_of
from halfline.api.tls_options import TlsOptions
from halfline.errors import BadSettings, HalflineError

_REFLECTION = f"/{reflection.SERVICE_NAME.rpartition('.')[0].rpartition('.')[0]}."

_KEEP_ALIVE_MS = 60_000  # then a silent peer is asked whether it is there
_ANSWER_MS = 20_000  # and given up

# What is left for last statuses after running calls were ended.
_LAST_WORDS_S = 5.0


def grpc_beside(host: str, tls: TlsOptions, bound: Callable[[int], None], *, max_calls: int) -> Beside:
    """The service at `options.grpc_port` of `host`, for `max_calls` at once; `bound` is told the port it got.

    Entering raises BadSettings when it cannot listen there.
    """

    @asynccontextmanager
    async def serving(answering: Answering, admission: Admission) -> AsyncIterator[None]:
        options = answering.options
        server = grpc.aio.server(interceptors=[_KeyForReflection(admission)], options=_arguments(options))
        server.add_generic_rpc_handlers((CompletionService(answering, admission, max_calls).handler(),))
        health_pb2_grpc.add_HealthServicer_to_server(Health(answering.serving), server)
        reflection.enable_server_reflection((SERVICE, HEALTH, reflection.SERVICE_NAME), server)
        bound(_listen(server, host, options.grpc_port or 0, tls))
        await server.start()
        try:
            yield
        finally:
            # Running calls end by themselves, or are ended like those of HTTP, at the latest after this.
            await server.stop(options.grace_s + _LAST_WORDS_S)

    return serving


def _arguments(options: ApiOptions) -> list[tuple[str, int]]:
    """What holds before anything of a call is in memory.

    A connection's streams are not bounded here: gRPC resets those beyond a bound without a word when they come at once.
    """
    return [
        ("grpc.so_reuseport", 0),  # a taken port is an error, not half of the calls
        ("grpc.max_receive_message_length", options.max_body_bytes),
        ("grpc.server_handshake_timeout_ms", round(options.header_timeout_s * 1000)),
        ("grpc.keepalive_time_ms", _KEEP_ALIVE_MS),
        ("grpc.keepalive_timeout_ms", _ANSWER_MS),
    ]


def _listen(server: grpc.aio.Server, host: str, port: int, tls: TlsOptions) -> int:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if tls.cert is None or tls.key is None:
            return server.add_insecure_port(address)
        authority = None if tls.client_ca is None else tls.client_ca.read_bytes()
        pair = (tls.key.read_bytes(), tls.cert.read_bytes())
        credentials = grpc.ssl_server_credentials(
            [pair], root_certificates=authority, require_client_auth=authority is not None
        )
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise BadSettings(f"cannot listen for gRPC on port {port} of {host}: {error}") from error


class _KeyForReflection(grpc.aio.ServerInterceptor):
    """What is told of the service is told to who may use it, as /openapi.json is."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    async def intercept_service(
        self,
        continuation: Callable[
            [grpc.HandlerCallDetails], Awaitable["grpc.RpcMethodHandler[Any, Any] | None"]
        ],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        if handler_call_details.method.startswith(_REFLECTION):
            try:
                self._admission.key_of(headers_of(handler_call_details.invocation_metadata))
            except HalflineError as error:
                return _refusing(error)
        return await continuation(handler_call_details)


def _refusing(error: HalflineError) -> "grpc.RpcMethodHandler[Any, Any]":
    async def refuse(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(code_of(error), str(error), trailers_of(error))

    return grpc.stream_stream_rpc_method_handler(refuse)
