"""How the server reports on itself."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """Logs go to standard error and never hold prompts, completions or keys."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe messages that are written. `debug` also names the fields of requests that were ignored."""

    log_format: Literal["text", "json"] = "text"
    """`text` is one `key=value` line per event, `json` one JSON object per line."""
