"""Which calls are being answered, by the names a client may know them by: the reply's id, and its own X-Request-Id."""

from halfline.api.call import Call
from halfline.pipeline.pipeline import Pipeline


class RunningCalls:
    """Lives on the event loop. A client whose reply is not streamed learns the id too late, so its own name counts."""

    def __init__(self) -> None:
        self._calls: dict[
            str, tuple[str, Call]
        ] = {}  # by the call's id: the client's name for it, and itself

    def entered(self, call: Call, request_id: str) -> None:
        self._calls[call.id] = (request_id, call)

    def left(self, call: Call) -> None:
        del self._calls[call.id]

    def runs(self, call_id: str, tenant: str) -> bool:
        """Whether the tenant's call of that id is being answered."""
        _, call = self._calls.get(call_id, ("", None))
        return call is not None and any(request.tenant == tenant for request in call.requests)

    def cancel(self, name: str, tenant: str, pipeline: Pipeline) -> bool:
        """End all of that name that the tenant runs; False when there are none."""
        named = [call for request_id, call in self._calls.values() if name in (call.id, request_id)]
        requests = [request for call in named for request in call.requests]
        return sum(pipeline.cancel(request.id, tenant) for request in requests) > 0
