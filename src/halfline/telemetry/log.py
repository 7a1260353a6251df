"""One line per event on standard error, as key=value or JSON.

Knows how a line looks and nothing about what is worth one. Callers keep the message constant and pass what
varies as fields: `logger.info("request", extra=fields(route="/health", status=200))`. Prompts, completions and
keys are never fields.
"""

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

from halfline.telemetry.options import TelemetryOptions


def set_up_logging(options: TelemetryOptions, stream: TextIO | None = None) -> None:
    """Send every logger of the process, the HTTP server's too, through one handler; `stream` None is stderr."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if options.log_format == "json" else _KeyValueLines())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("halfline").setLevel(options.log_level.upper())


def fields(**values: object) -> dict[str, Mapping[str, object]]:
    """What varies in an event, as the `extra` of a logging call; None values are left out."""
    return {"fields": {name: value for name, value in values.items() if value is not None}}


def _event(record: logging.LogRecord) -> dict[str, object]:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    event: dict[str, object] = {
        "time": when,
        "level": record.levelname.lower(),
        "logger": record.name,
        "event": record.getMessage(),
    }
    event.update(getattr(record, "fields", {}))
    if record.exc_info:
        event["traceback"] = logging.Formatter().formatException(record.exc_info)
    return event


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(_event(record), default=str, ensure_ascii=False)


class _KeyValueLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        event = _event(record)
        traceback = event.pop("traceback", None)
        line = " ".join(f"{name}={_quoted(value)}" for name, value in event.items())
        return line if traceback is None else f"{line}\n{traceback}"


_BARE = re.compile(r"[\w.:/+\-]+")


def _quoted(value: object) -> str:
    """The value as it is when it needs no quotes; control characters never reach the terminal raw."""
    text = f"{value:.1f}" if isinstance(value, float) else str(value)
    return text if _BARE.fullmatch(text) else json.dumps(text)
