"""The life of `halfline serve`: bind, find the model, begin to load it, then bring up HTTP beside that."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor

from halfline.api.keys.key_file import FILE_NAME
from halfline.api.keys.key_ring import KeyRing
from halfline.cli.listening import bind
from halfline.cli.model_parts import find_model, load_parts
from halfline.cli.proved import check_proved
from halfline.cli.tls import check_tls
from halfline.errors import BadSettings
from halfline.settings import Settings
from halfline.telemetry.log import set_up_logging


def run_server(settings: Settings) -> None:
    """Returns after SIGINT or SIGTERM. Raises HalflineError when it cannot serve, also when loading fails."""
    set_up_logging(settings.telemetry)
    # First what fails fastest: a taken port should not wait for a download.
    check_tls(settings.tls)
    keys = KeyRing(settings.data_dir / FILE_NAME, required=settings.api.require_keys)
    may_reach = keys.required or settings.insecure_open
    listener = bind(settings.host, settings.port, others_may_reach=may_reach)
    if settings.api.grpc_port is not None:
        check_grpc(settings.host, settings.api.grpc_port, others_may_reach=may_reach)
    path = find_model(settings)
    check_proved(settings, path)
    with ThreadPoolExecutor(1, "load") as loader:
        parts = loader.submit(load_parts, settings, path)
        # Start-up time: the imports of HTTP take as long as the weights, which are packed without the interpreter.
        from halfline.cli.http_serving import serve_http

        serve_http(settings, listener, parts, keys)


def check_grpc(host: str, port: int, *, others_may_reach: bool) -> None:
    """Raises BadSettings for a port that cannot be had, and without the packages that speak gRPC. It binds for itself
    later on.
    """
    if any(importlib.util.find_spec(name) is None for name in ("grpc", "grpc_health", "grpc_reflection")):
        raise BadSettings("api.grpc_port needs more packages: `.venv/bin/pip install -e '.[grpc]'`")
    bind(host, port, others_may_reach=others_may_reach).close()
