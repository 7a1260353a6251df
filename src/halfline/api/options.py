"""What the HTTP server accepts, and what it assumes when a client leaves a field out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from halfline.errors import BadRequest
from halfline.sampling.profiles import DEFAULT_PROFILE, Profile, find_profile

_DAY_S = 86_400
_MOST_PORT = 65_535
_HOST_NAME = re.compile(r"[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """Limits that protect the server, and defaults of the request fields."""

    max_body_bytes: int = 8 * 1024 * 1024
    """Largest request body in bytes; a larger one is answered with 413 before it is read."""

    header_timeout_s: float = 30.0
    """Seconds in which a request's head has to come, from the connection or its first byte on; a connection that is
    slower is closed with 408."""

    body_timeout_s: float = 30.0
    """Seconds in which a request's body has to come; a slower one is answered with 408."""

    send_timeout_s: float = 30.0
    """Seconds in which a client has to read on when it has fallen behind with an answer; one that does not is
    disconnected, and what it asked for ends."""

    max_connections: int = 2048
    """Most connections at once, and no more than the system lets the process have; beyond that those that ask for
    nothing are closed, the longest first, and where none does a new one is answered with 503."""

    max_choices: int = 128
    """Most choices one request may ask for: prompts times `n` (or `best_of`)."""

    profile: str = DEFAULT_PROFILE
    """Where fields come from that a request leaves out and that names no `profile` itself: `low-latency` (up to 128 new
    tokens, always the likeliest), `high-quality` (up to 512, drawn at temperature 0.7), or one of your own."""

    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """Your own profiles by name, each a table such as `[api.profiles.bold]` of `temperature`, `max_new_tokens`,
    `do_sample`, `top_k`, `top_p`, `min_p` and a table `schedule`."""

    chat_max_tokens: int = 1024
    """New tokens for a chat whose request says no `max_tokens`; as many as there is room for, where that is less."""

    read_tasks: tuple[str, ...] = ()
    """Names of tasks whose constant beginnings are read as soon as the model is there, as idle work, so that their
    first requests wait for their own text only; none unless said."""

    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may call this server, such as `https://ide.example.com`; none by default."""

    allowed_hosts: tuple[str, ...] = ()
    """Names, without a port, under which a server without keys that listens on this machine only may be asked, beside
    `localhost` and its addresses: those that a proxy in front of it passes on, or `host.docker.internal`."""

    grpc_port: int | None = None
    """Port of the gRPC service, on the same address, with the same keys and TLS files; 0 takes any free one. There is
    none unless said. Needs the extra `grpc`."""

    require_keys: bool = False
    """Want an API key of everybody, also before there is one. Without this, keys are wanted as soon as one was created
    by `halfline key create`."""

    grace_s: float = 5.0
    """Seconds that running requests may still take when the server is told to stop, at most a day."""

    def __post_init__(self) -> None:
        for name in ("max_body_bytes", "max_connections", "max_choices"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least 1")
        for name in ("chat_max_tokens", "grace_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be at least 0")
        for name in ("header_timeout_s", "body_timeout_s", "send_timeout_s"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name)}, it must be more than 0")
        for host in self.allowed_hosts:
            if not _HOST_NAME.fullmatch(host):
                raise ValueError(
                    f"allowed_hosts holds {host!r}, which is no name of a host; a port is none of it"
                )
        if self.grpc_port is not None and not 0 <= self.grpc_port <= _MOST_PORT:
            raise ValueError(f"grpc_port is {self.grpc_port}, it must be between 0 and {_MOST_PORT}")
        if self.grace_s > _DAY_S:
            raise ValueError(f"grace_s is {self.grace_s}, it must be at most {_DAY_S}")
        try:
            self.find_profile(None)
        except BadRequest as error:
            raise ValueError(str(error)) from error

    def find_profile(self, name: str | None) -> Profile:
        """None: the server's own choice. Raises BadRequest for an unknown one."""
        return find_profile(name, self.profile, self.profiles)
