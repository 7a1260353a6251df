"""Server-sent events: `data: {json}` and an empty line per event."""

import json
from collections.abc import Mapping

DONE = b"data: [DONE]\n\n"


def event(payload: Mapping[str, object]) -> bytes:
    """One event. JSON in ASCII: no payload can hold a line break or half a character."""
    return b"data: " + json.dumps(payload, separators=(",", ":"), allow_nan=False).encode() + b"\n\n"
