"""What a finished call leaves behind: its numbers in the metrics and one log line."""

import logging

from halfline.api.call import Call
from halfline.api.serving import Pipeline
from halfline.telemetry.log import fields
from halfline.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)


def account(call: Call, pipeline: Pipeline, metrics: Metrics) -> None:
    """Count each of the call's requests that has a receipt; refused ones never ran and have none."""
    for request in call.requests:
        receipt = pipeline.receipt(request.id)
        if receipt is None:
            continue
        metrics.completed(receipt)
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
