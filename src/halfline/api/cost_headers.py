"""What an answer has cost, in the headers that browsers' network views, Copilot and Cody look for.

Knows receipts and names of headers; a stream sends its headers before most of the cost is known.
"""

from collections.abc import Sequence

from halfline.request import Receipt

_FIRST_TOKEN = "Fireworks-Server-Time-To-First-Token"


def cost_headers(receipts: Sequence[Receipt]) -> dict[str, str]:
    """Of a whole reply: of each phase the slowest request, of tokens all together."""
    if not receipts:
        return {}
    queue_ms = max(receipt.queue_ms for receipt in receipts)
    prefill_ms = max(receipt.prefill_ms for receipt in receipts)
    decode_ms = max(receipt.decode_ms for receipt in receipts)
    total_ms = max(receipt.total_ms for receipt in receipts)
    num_accepted = sum(sum(receipt.accepted_tokens.values()) for receipt in receipts)
    return {
        "Server-Timing": f"queue;dur={queue_ms:.2f}, prefill;dur={prefill_ms:.2f},"
        f" decode;dur={decode_ms:.2f}, total;dur={total_ms:.2f}",
        "Fireworks-Prefill-Queue-Duration": _seconds(queue_ms),
        "Fireworks-Cached-Prompt-Tokens": str(sum(receipt.num_reused_tokens for receipt in receipts)),
        "Fireworks-Speculation-Matched-Tokens": str(num_accepted),
        _FIRST_TOKEN: _seconds(queue_ms + prefill_ms),
        "OpenAI-Processing-Ms": str(round(total_ms)),
    }


def first_text_headers(waited_ms: float) -> dict[str, str]:
    """Of a stream, whose first text came after `waited_ms`."""
    return {
        "OpenAI-Processing-Ms": str(round(waited_ms)),
        _FIRST_TOKEN: _seconds(waited_ms),
    }


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1e3:.5f}"
