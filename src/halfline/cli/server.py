"""The HTTP server around a listening socket: how it ends without cutting anyone off."""

import asyncio
import resource
import signal
import socket
import sys
from types import FrameType

import uvicorn
from fastapi import FastAPI

from halfline.api.live import LiveRequests
from halfline.api.options import ApiOptions
from halfline.api.patience import patient_protocol
from halfline.api.tls_options import TlsOptions
from halfline.cli.tls import uvicorn_tls

# Editors keep one connection and pause for minutes; opening a new one costs a keystroke's patience.
_KEEP_ALIVE_S = 120

# What is left for sending last events and freeing the model after running requests were ended.
_LAST_WORDS_S = 5

# For models, databases, logs and the listeners.
_FILES_OF_OUR_OWN = 128


class Server(uvicorn.Server):
    """Ends at SIGINT or SIGTERM: no new connections, running requests get `options.grace_s`, then their last event.

    Then `run` returns. The second signal finds the system's own handler and ends the process at once.
    """

    def __init__(self, app: FastAPI, live: LiveRequests, options: ApiOptions, tls: TlsOptions) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=patient_protocol(
                    options.header_timeout_s,
                    options.send_timeout_s,
                    min(options.max_connections, _files_for_connections()),
                ),
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="on",
                ws="none",
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=round(options.grace_s) + _LAST_WORDS_S,
                **uvicorn_tls(tls),
            )
        )
        self._live = live
        self._grace_s = options.grace_s

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Uvicorn's own would raise the signal again at the end, and we promise exit code 0."""
        self.should_exit = True
        signal.signal(sig, signal.SIG_DFL)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(self._grace_s, self._live.end_all)
        await super().shutdown(sockets)


def _files_for_connections() -> int:
    """As many as this process may still open, roughly; a listener that may open none spins and serves nobody."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if allowed == resource.RLIM_INFINITY else max(1, allowed - _FILES_OF_OUR_OWN)
