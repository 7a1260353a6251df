"""The life of `halfline serve`: bind, find the model, let clients in, load, serve, end."""

from rich.console import Console

from halfline.api.app import create_app
from halfline.api.live import LiveRequests
from halfline.api.serving import Loaded
from halfline.cli.loading import Ready, find_model, load_model
from halfline.cli.server import Server, bind, listen
from halfline.settings import Settings
from halfline.telemetry.log import set_up_logging


def run_server(settings: Settings) -> None:
    """Returns after SIGINT or SIGTERM. Raises HalflineError when it cannot serve, also when loading fails."""
    set_up_logging(settings.telemetry)
    # First what fails fastest: a taken port should not wait for a download.
    listener = bind(settings.host, settings.port, insecure_open=settings.insecure_open)
    url = _url(settings.host, listener.getsockname()[1])
    path = find_model(settings)
    failures: list[Exception] = []

    def load() -> Loaded:
        try:
            ready = load_model(settings, path)
        except Exception as error:
            failures.append(error)
            server.should_exit = True
            raise
        _greet(url, ready)
        return ready.loaded

    live = LiveRequests()
    server = Server(create_app(load, settings.api, live), live, settings.api.grace_s)
    listen(listener)
    server.run(sockets=[listener])
    if failures:
        raise failures[0]


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _greet(url: str, ready: Ready) -> None:
    """What to paste into an editor, and what was decided at start."""
    model = ready.loaded.model
    infill = f"infills ({model.infill_format})" if model.infill_format else "no infill tokens"
    body = '{"prompt": "def fib(n):", "max_tokens": 32}'
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"[bold]halfline[/bold] serves [bold]{model.name}[/bold] at [bold]{url}[/bold]"
        f" (ready after {ready.load_s:.1f} s)\n"
        f"  OpenAI base URL  {url}/v1   any model name, any key\n"
        f"  try              curl {url}/v1/completions -d '{body}'\n"
        f"  context          {model.max_context} tokens, {infill}\n"
        f"  KV cache         {ready.kv_bytes / 2**20:.0f} MiB = {ready.kv_tokens} tokens\n"
        f"  computes with    {ready.kernels}, {ready.num_threads} threads"
    )
