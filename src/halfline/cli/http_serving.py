"""HTTP, and gRPC where it is asked for, around a model that is still being loaded: let clients in, greet when it is
there, serve, end.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Collection
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager

import typer

from halfline.api.admission import Admission
from halfline.api.answering import Answering
from halfline.api.app import Beside, create_app
from halfline.api.keys.key_ring import KeyRing
from halfline.api.live import LiveRequests
from halfline.api.local_names import LocalNames, is_loopback
from halfline.api.serving import Loaded
from halfline.api.task_heads import heads_read
from halfline.api.tenants import WITHOUT_KEY
from halfline.cli.listening import listen
from halfline.cli.loading import Ready, assemble
from halfline.cli.model_parts import ModelParts
from halfline.cli.server import Server
from halfline.cli.start_up import settle
from halfline.errors import HalflineError
from halfline.settings import Settings


def serve_http(
    settings: Settings, listener: socket.socket, parts: "Future[ModelParts]", keys: KeyRing
) -> None:
    """Returns after SIGINT or SIGTERM. Raises HalflineError when it cannot serve, also when loading failed."""
    scheme = "http" if settings.tls.cert is None else "https"
    url = f"{scheme}://{_host(settings.host)}:{listener.getsockname()[1]}"
    failures: list[Exception] = []
    came_up: list[Ready] = []
    grpc_port: list[int] = []

    def load() -> Loaded:
        try:
            ready = assemble(settings, parts.result())
        except Exception as error:
            failures.append(error)
            server.should_exit = True
            raise
        settle()
        came_up.append(ready)
        return ready.loaded

    def greet() -> None:
        address = f"{_host(settings.host)}:{grpc_port[0]}" if grpc_port else None
        _greet(url, address, came_up[0], wants_key=keys.required)
        up.set()

    def tenants() -> Collection[str]:
        return keys.tenants if keys.required else (WITHOUT_KEY,)

    up = asyncio.Event()
    beside: list[Beside] = []
    if settings.api.read_tasks:
        beside.append(heads_read(settings.api.read_tasks, tenants, up))
    if settings.api.grpc_port is not None:
        from halfline.api.rpc.server import grpc_beside  # an optional dependency

        max_calls = settings.engine.max_num_seqs + settings.engine.max_waiting
        port = grpc_beside(settings.host, settings.tls, grpc_port.append, max_calls=max_calls)
        beside.append(_noting(failures, port))
    live = LiveRequests()
    local = None
    if is_loopback(listener.getsockname()[0]):
        local = LocalNames((settings.host, *settings.api.allowed_hosts), settings.api.cors_origins)
    app = create_app(load, settings.api, live, keys, beside=beside, greet=greet, local=local)
    server = Server(app, live, settings.api, settings.tls)
    listen(listener)
    server.run(sockets=[listener])
    if failures:
        raise failures[0]


def _noting(failures: list[Exception], beside: Beside) -> Beside:
    """Uvicorn ends when a port beside it cannot be had, and does not say why."""

    @asynccontextmanager
    async def noted(answering: Answering, admission: Admission) -> AsyncIterator[None]:
        async with AsyncExitStack() as entered:
            try:
                await entered.enter_async_context(beside(answering, admission))
            except HalflineError as error:
                failures.append(error)
                raise
            yield

    return noted


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _greet(url: str, grpc_address: str | None, ready: Ready, *, wants_key: bool) -> None:
    """What to paste into an editor, and what was decided at start."""
    model = ready.loaded.model
    infill = f"infills ({model.infill_format})" if model.infill_format else "no infill tokens"
    body = '{"prompt": "def fib(n):", "max_tokens": 32}'
    key = "a key from `halfline key create`" if wants_key else "any key"
    header = '-H "Authorization: Bearer $HALFLINE_API_KEY" ' if wants_key else ""
    name, served, address = (typer.style(text, bold=True) for text in ("halfline", model.name, url))
    grpc = f"  gRPC             {grpc_address}\n" if grpc_address else ""
    typer.echo(
        f"{name} serves {served} at {address} (ready after {ready.load_s:.1f} s)\n"
        f"  OpenAI base URL  {url}/v1   any model name, {key}\n"
        f"  try              curl {url}/v1/completions {header}-d '{body}'\n"
        f"{grpc}"
        f"  context          {model.max_context} tokens, {infill}\n"
        f"  KV cache         {ready.kv_bytes / 2**20:.0f} MiB = {ready.kv_tokens} tokens\n"
        f"  computes with    {ready.kernels}, {ready.num_threads} {'thread' if ready.num_threads == 1 else 'threads'}",
        err=True,
    )
