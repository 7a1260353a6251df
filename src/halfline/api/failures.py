"""Which HTTP status and which error body each of our errors becomes. Nothing else knows HTTP codes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import JSONResponse

from halfline.errors import (
    BadRequest,
    BodyTooLarge,
    BodyTooSlow,
    EngineFailed,
    HalflineError,
    KeyRefused,
    Loading,
    NotNow,
    NotPermitted,
    NotRunning,
    OverLimit,
    Overloaded,
    PlaceholdersRefused,
    PromptTooLong,
    UnknownCompletion,
    UnknownFragment,
    UnknownTask,
    UnsupportedField,
    UnusableLogits,
)


@dataclass(frozen=True, slots=True)
class _Kind:
    status: int
    type: str
    code: str | None = None


_OURS = _Kind(500, "internal_error")

_KINDS: Mapping[type, _Kind] = {
    BadRequest: _Kind(400, "invalid_request_error"),
    UnsupportedField: _Kind(400, "invalid_request_error", "unsupported_value"),
    PromptTooLong: _Kind(400, "invalid_request_error", "context_length_exceeded"),
    BodyTooLarge: _Kind(413, "invalid_request_error", "body_too_large"),
    BodyTooSlow: _Kind(408, "invalid_request_error", "body_too_slow"),
    UnknownCompletion: _Kind(404, "not_found_error", "unknown_completion"),
    UnknownFragment: _Kind(404, "not_found_error", "unknown_fragment"),
    NotRunning: _Kind(404, "not_found_error", "not_running"),
    UnknownTask: _Kind(404, "not_found_error", "unknown_task"),
    PlaceholdersRefused: _Kind(422, "invalid_request_error", "placeholders_refused"),
    KeyRefused: _Kind(401, "authentication_error", "invalid_api_key"),
    NotPermitted: _Kind(403, "permission_error"),
    OverLimit: _Kind(429, "rate_limit_error", "rate_limit_exceeded"),
    NotNow: _Kind(503, "unavailable_error"),
    Overloaded: _Kind(429, "rate_limit_error", "overloaded"),
    EngineFailed: _Kind(503, "unavailable_error", "engine_failed"),
    UnusableLogits: _Kind(500, "internal_error", "unusable_logits"),
    HalflineError: _OURS,
}


def status_of(error: Exception) -> int:
    """The HTTP status of an error: that of its nearest ancestor in the table, 500 for a stranger."""
    return _kind(error).status


def known_statuses() -> Sequence[tuple[int, str]]:
    """(HTTP status, error type) of every failure of ours, for the documentation's check."""
    return [(kind.status, kind.type) for kind in _KINDS.values()]


def error_body(error: Exception) -> dict[str, object]:
    """`{"error": {message, type, param, code}}`, OpenAI's."""
    kind = _kind(error)
    param = error.field if isinstance(error, BadRequest) else None
    return {"error": {"message": error_message(error), "type": kind.type, "param": param, "code": kind.code}}


def error_message(error: Exception) -> str:
    """The sentence for the client; what is our fault is told without its details."""
    ours = _kind(error) is _OURS
    return "the server failed on this request; its log has the details" if ours else str(error)


def failure_response(error: Exception) -> JSONResponse:
    """The whole reply in OpenAI's words."""
    return JSONResponse(error_body(error), status_of(error), error_headers(error))


def error_headers(error: Exception) -> dict[str, str]:
    """Retry-After where waiting helps. Who has not said all is not listened to any more."""
    headers: dict[str, str] = {}
    if isinstance(error, NotNow):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
    if isinstance(error, KeyRefused):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, BodyTooLarge | BodyTooSlow | KeyRefused | NotPermitted):
        headers["Connection"] = "close"
    return headers


def health_failure(error: HalflineError) -> JSONResponse:
    """503 in llama-server's words, which editors look for: "Loading model" while it loads."""
    message = "Loading model" if isinstance(error, Loading) else str(error)
    body = {"error": {"code": 503, "message": message, "type": "unavailable_error"}}
    return JSONResponse(body, 503)


def plain_failure(status: int, message: str) -> JSONResponse:
    """The same body for what the HTTP framework itself refuses: unknown paths and methods."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": error}, status)


def _kind(error: Exception) -> _Kind:
    return next((_KINDS[ancestor] for ancestor in type(error).__mro__ if ancestor in _KINDS), _OURS)
