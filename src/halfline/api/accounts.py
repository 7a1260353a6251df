"""What a finished call leaves behind: its numbers in the metrics and one log line."""

import asyncio
import logging

from halfline.api.call import Call
from halfline.pipeline.pipeline import Pipeline
from halfline.request import Receipt
from halfline.telemetry.log import fields
from halfline.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)

# Longer than any engine step.
_LAST_NUMBERS_S = 2.0


class Accounts:
    """Lives on the event loop. Those that ended early are counted when their last numbers are there."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._open: set[asyncio.Task[None]] = set()

    def ended(self, call: Call, pipeline: Pipeline) -> None:
        """Count each of the call's requests that has a receipt, soon; refused ones never ran and have none."""
        task = asyncio.ensure_future(self._account(call, pipeline))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def close(self) -> None:
        """Wait for what is still open, while there is an engine to tell of it."""
        if self._open:
            await asyncio.wait(self._open, timeout=_LAST_NUMBERS_S)
        for task in self._open:
            task.cancel()

    async def _account(self, call: Call, pipeline: Pipeline) -> None:
        for request in call.requests:
            receipt = await pipeline.final_receipt(request.id)
            if receipt is not None:
                self._metrics.completed(receipt)
                _tell(receipt)


def _tell(receipt: Receipt) -> None:
    _log.info(
        "completion",
        extra=fields(
            id=receipt.request_id,
            prompt_tokens=receipt.num_prompt_tokens,
            reused_tokens=receipt.num_reused_tokens,
            generated_tokens=receipt.num_generated_tokens,
            queue_ms=receipt.queue_ms,
            prefill_ms=receipt.prefill_ms,
            decode_ms=receipt.decode_ms,
            total_ms=receipt.total_ms,
            finish=",".join(receipt.finish_reasons),
        ),
    )
