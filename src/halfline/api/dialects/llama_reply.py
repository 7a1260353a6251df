"""Completions as llama-server answers them: an object, a list of objects for several choices, or events without
[DONE]. Errors too.

Of a stream every event but the last of a choice has `content`, `tokens`, `stop` false. The last ones come together at
the end, when it is known what everything has cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.responses import JSONResponse

from halfline.api import sse
from halfline.api.dialects.llama_body import LlamaCall
from halfline.api.failures import error_headers, error_message, status_of
from halfline.errors import HalflineError, PromptTooLong
from halfline.pipeline.postprocess.line_time import LineTime
from halfline.pipeline.postprocess.min_indent import MinIndent
from halfline.request import Choice, ChoiceDelta, Completion, FinishReason, Receipt, TokenLogprob
from halfline.sampling.stop import StopStrings
from halfline.text.tokenizer import Tokenizer

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "unavailable_error",
}


@dataclass(frozen=True, slots=True)
class _Ending:
    """What the last word on a choice needs."""

    text: str
    token_ids: tuple[int, ...]
    reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] | None


class LlamaReply:
    """Numbers a call's choices through, prompt by prompt."""

    media_type = "text/event-stream"

    def __init__(self, call: LlamaCall, model: str, tokenizer: Tokenizer) -> None:
        self._call = call
        self._model = model
        self._tokenizer = tokenizer
        self._first: list[int] = []  # number of each request's first choice
        for request in call.requests:
            self._first.append(sum(each.num_choices for each in call.requests[: len(self._first)]))
            assert request.num_choices > 0
        self._deltas: dict[int, list[ChoiceDelta]] = {}

    def whole(self, completions: Sequence[Completion]) -> object:
        replies = [
            self._selected(self._final(first + choice.index, position, _ended(choice), completion.receipt))
            for position, (first, completion) in enumerate(zip(self._first, completions, strict=True))
            for choice in completion.choices
        ]
        return replies[0] if len(replies) == 1 else replies

    def delta(self, position: int, delta: ChoiceDelta) -> bytes:
        index = self._first[position] + delta.index
        self._deltas.setdefault(index, []).append(delta)
        if not delta.text and delta.finish_reason is not None:
            return b""
        tokens = list(delta.token_ids)
        return sse.event({"index": index, "content": delta.text, "tokens": tokens, "stop": False})

    def end(self, receipts: Sequence[Receipt]) -> bytes:
        events = []
        for position, (first, receipt) in enumerate(zip(self._first, receipts, strict=True)):
            for index in range(first, first + self._call.requests[position].num_choices):
                final = self._final(index, position, self._streamed(index), receipt)
                # What was sent before is not sent again.
                events.append(sse.event(self._selected({**final, "content": "", "tokens": []})))
        return b"".join(events)

    def cut_short(self) -> bytes:
        """Clients know only `stop`: what they have is all."""
        return sse.event({"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": "none"})

    def error(self, error: Exception) -> bytes:
        return sse.event(llama_error(error))

    def _streamed(self, index: int) -> _Ending:
        deltas = self._deltas.get(index, [])
        logprobs = tuple(each for delta in deltas for each in delta.logprobs or ())
        return _Ending(
            "".join(delta.text for delta in deltas),
            tuple(token_id for delta in deltas for token_id in delta.token_ids),
            next((delta.finish_reason for delta in deltas if delta.finish_reason), "stop"),
            logprobs,
        )

    def _final(self, index: int, position: int, ending: _Ending, receipt: Receipt) -> dict[str, object]:
        given, request = self._call.given, self._call.requests[position]
        num_generated = len(ending.token_ids)
        ended_by = receipt.ended_by[index - self._first[position]]
        stop_type, word = _stop_type(ending.reason, ended_by, request.params.stop)
        reply: dict[str, object] = {
            "index": index,
            "content": ending.text,
            "tokens": list(ending.token_ids) if given.return_tokens else [],
            "id_slot": 0,
            "stop": True,
            "model": self._model,
            "tokens_predicted": num_generated,
            "tokens_evaluated": receipt.num_prompt_tokens,
            "generation_settings": generation_settings(self._call, position),
            "prompt": self._prompt_text(position),
            "has_new_line": "\n" in ending.text,
            "truncated": False,
            "stop_type": stop_type,
            "stopping_word": word,
            "tokens_cached": receipt.num_prompt_tokens + num_generated,
            "timings": _timings(receipt, num_generated),
        }
        if given.n_probs and ending.logprobs is not None:
            reply["completion_probabilities"] = [_probability(each) for each in ending.logprobs]
        return reply

    def _prompt_text(self, position: int) -> str:
        texts = self._call.prompts
        return texts[position * len(texts) // len(self._call.requests)]

    def _selected(self, reply: Mapping[str, object]) -> Mapping[str, object]:
        """Only the fields asked for, each under the very name it was asked by; all where the list is empty."""
        names = self._call.given.response_fields
        if not names:
            return reply
        found = ((name, _field(reply, name.split("/"))) for name in names[:1000])
        return {name: value[0] for name, value in found if value}


def llama_error(error: Exception) -> dict[str, object]:
    """`{"error": {code, message, type}}` as llama-server words it."""
    status = status_of(error)
    described: dict[str, object] = {
        "code": status,
        "message": error_message(error),
        "type": _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error"),
    }
    if isinstance(error, PromptTooLong):
        described |= {
            "type": "exceed_context_size_error",
            "n_prompt_tokens": error.num_tokens,
            "n_ctx": error.limit,
        }
    return {"error": described}


def llama_failure(error: HalflineError) -> JSONResponse:
    return JSONResponse(llama_error(error), status_of(error), error_headers(error))


def generation_settings(call: LlamaCall, position: int) -> dict[str, object]:
    """What the answer was sampled with, in llama-server's words."""
    request = call.requests[position]
    params = request.params
    return {
        "n_predict": request.max_tokens,
        "seed": 2**32 - 1 if params.seed is None else params.seed,
        "temperature": params.temperature,
        "top_k": params.top_k,
        "top_p": params.top_p,
        "min_p": params.min_p,
        "repeat_penalty": params.repetition_penalty,
        "presence_penalty": params.presence_penalty,
        "frequency_penalty": params.frequency_penalty,
        "stop": list(params.stop),
        "ignore_eos": params.ignore_eos,
        "stream": bool(call.given.stream),
        "n_probs": call.given.n_probs or 0,
        "n_indent": request.bounds.min_indent,
        "t_max_predict_ms": request.bounds.line_time_ms or -1,
    }


def _ended(choice: Choice) -> _Ending:
    return _Ending(choice.text, choice.token_ids, choice.finish_reason, choice.logprobs)


def _stop_type(reason: FinishReason, ended_by: str | None, stops: Sequence[str]) -> tuple[str, str]:
    """`stop_type` and `stopping_word`. The word is told where only one was given."""
    match reason:
        case "length" | "superseded" | "deadline":
            return "limit", ""
        case "stop" if ended_by in (MinIndent.rule, LineTime.rule):
            return "limit", ""
        case "stop" if ended_by == StopStrings.rule:
            return "word", stops[0] if len(stops) == 1 else ""
        case "stop":
            return "eos", ""
        case _:
            return "none", ""


def _timings(receipt: Receipt, num_generated: int) -> dict[str, object]:
    num_computed = receipt.num_prompt_tokens - receipt.num_reused_tokens
    return {
        "cache_n": receipt.num_reused_tokens,
        **_pace("prompt", num_computed, receipt.prefill_ms),
        **_pace("predicted", num_generated, receipt.decode_ms),
    }


def _pace(name: str, count: int, total_ms: float) -> dict[str, object]:
    return {
        f"{name}_n": count,
        f"{name}_ms": total_ms,
        f"{name}_per_token_ms": total_ms / count if count else 0.0,
        f"{name}_per_second": count / total_ms * 1e3 if total_ms > 0.0 else 0.0,
    }


def _probability(token: TokenLogprob) -> dict[str, object]:
    return {
        "id": token.token_id,
        "token": token.text,
        "bytes": list(token.text.encode(errors="replace")),
        "logprob": token.logprob,
        "top_logprobs": [
            {"id": token_id, "token": text, "bytes": list(text.encode(errors="replace")), "logprob": logprob}
            for token_id, text, logprob in token.top
        ],
    }


def _field(reply: object, path: Sequence[str]) -> list[object]:
    """The value at the end of the path, alone in a list; an empty one where the path leads nowhere."""
    for name in path:
        if not isinstance(reply, Mapping) or name not in reply:
            return []
        reply = reply[name]
    return [reply]
