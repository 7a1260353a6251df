"""Which gRPC status each of our errors becomes: that of its HTTP status, with the same sentence."""

from collections.abc import Mapping

import grpc

from halfline.api.failures import error_headers, status_of

_CODES: Mapping[int, grpc.StatusCode] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}


def code_of(error: Exception) -> grpc.StatusCode:
    """INVALID_ARGUMENT for whatever else the client can mend."""
    status = status_of(error)
    return _CODES.get(status, grpc.StatusCode.INVALID_ARGUMENT if status < 500 else grpc.StatusCode.INTERNAL)


def trailers_of(error: Exception) -> tuple[tuple[str, str], ...]:
    """`retry-after`, in seconds, where waiting helps."""
    seconds = error_headers(error).get("Retry-After")
    return () if seconds is None else (("retry-after", seconds),)
