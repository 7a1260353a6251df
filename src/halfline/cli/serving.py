"""The life of `halfline serve`: bind, find the model, begin to load it, then bring up HTTP beside that."""

from concurrent.futures import ThreadPoolExecutor

from halfline.api.keys.key_file import FILE_NAME
from halfline.api.keys.key_ring import KeyRing
from halfline.cli.listening import bind
from halfline.cli.model_parts import find_model, load_parts
from halfline.cli.tls import check_tls
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
    path = find_model(settings)
    with ThreadPoolExecutor(1, "load") as loader:
        parts = loader.submit(load_parts, settings, path)
        # Start-up time: the imports of HTTP take as long as the weights, which are packed without the interpreter.
        from halfline.cli.http_serving import serve_http

        serve_http(settings, listener, parts, keys)
