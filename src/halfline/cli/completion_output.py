"""What `halfline complete` prints: the text as it comes, byte for byte, and at the end on standard error its cost."""

import sys
from collections.abc import Mapping
from typing import Any


def write_text(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def print_costs(receipt: Mapping[str, Any], before: str = "") -> None:
    print(
        f"\n{before}prompt {receipt['num_prompt_tokens']} tokens ({receipt['num_reused_tokens']} reused)"
        f" in {receipt['prefill_ms']:.0f} ms, {receipt['num_generated_tokens']} tokens"
        f" in {receipt['decode_ms']:.0f} ms, total {receipt['total_ms']:.0f} ms",
        file=sys.stderr,
    )
