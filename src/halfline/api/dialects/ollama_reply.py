"""Completions as Ollama answers them: one object, or one per line, the last of which says what it has cost."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from starlette.responses import JSONResponse

from halfline.api.dialects.ollama_body import OllamaCall
from halfline.api.failures import error_headers, error_message, status_of
from halfline.errors import HalflineError
from halfline.request import ChoiceDelta, Completion, FinishReason, Receipt


class OllamaReply:
    """Of both routes: they differ in where the text stands."""

    media_type = "application/x-ndjson"

    def __init__(self, call: OllamaCall, created: float, *, chat: bool) -> None:
        self._call = call
        self._envelope = {"model": call.model, "created_at": timestamp(created)}
        self._chat = chat
        self._token_ids: list[int] = []
        self._reason: FinishReason = "stop"

    def whole(self, completions: Sequence[Completion]) -> dict[str, object]:
        if not completions:  # only the model was wanted, and it is there
            return {**self._envelope, **self._text(""), "done": True, "done_reason": "load"}
        (choice,) = completions[0].choices
        self._token_ids += choice.token_ids
        self._reason = choice.finish_reason
        return self._last(choice.text, completions[0].receipt)

    def delta(self, position: int, delta: ChoiceDelta) -> bytes:
        self._token_ids += delta.token_ids
        if delta.finish_reason is not None:
            self._reason = delta.finish_reason
        return _line({**self._envelope, **self._text(delta.text), "done": False}) if delta.text else b""

    def end(self, receipts: Sequence[Receipt]) -> bytes:
        (receipt,) = receipts
        return _line(self._last("", receipt))

    def cut_short(self) -> bytes:
        return _line({**self._envelope, **self._text(""), "done": True, "done_reason": "unload"})

    def error(self, error: Exception) -> bytes:
        return _line({"error": error_message(error)})

    def _text(self, text: str) -> dict[str, object]:
        return {"message": {"role": "assistant", "content": text}} if self._chat else {"response": text}

    def _last(self, text: str, receipt: Receipt) -> dict[str, object]:
        last = {
            **self._envelope,
            **self._text(text),
            "done": True,
            "done_reason": "stop" if self._reason == "stop" else "length",
            "total_duration": _ns(receipt.total_ms),
            "load_duration": 0,
            "prompt_eval_count": receipt.num_prompt_tokens,
            "prompt_eval_duration": _ns(receipt.prefill_ms),
            "eval_count": receipt.num_generated_tokens,
            "eval_duration": _ns(receipt.decode_ms),
        }
        if not self._chat and self._call.prompt_ids is not None:
            last["context"] = [*self._call.prompt_ids, *self._token_ids]
        return last


def ollama_failure(error: HalflineError) -> JSONResponse:
    """`{"error": "…"}` and the status."""
    return JSONResponse({"error": error_message(error)}, status_of(error), error_headers(error))


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as Ollama writes times."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)


def _line(payload: Mapping[str, object]) -> bytes:
    return json.dumps(payload, separators=(",", ":"), allow_nan=False).encode() + b"\n"
