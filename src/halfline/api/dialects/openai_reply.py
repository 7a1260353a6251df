"""Completions as OpenAI's POST /v1/completions answers them: one JSON object, or chunks of a stream.

Choices of several prompts are numbered prompt-major: prompt p's choice c is p * n + c. `text_offset` counts
characters from the start of the choice's own text, an echoed prompt included.

A superseded choice, and one whose time was up, says `length`, which to every client means that the text might go on.
Where it was superseded the object, and in a stream the choice's last event, has `"superseded": true` beside.
"""

import math
from collections.abc import Mapping, Sequence

from halfline.api import sse
from halfline.api.dialects.openai_body import CompletionCall
from halfline.api.failures import error_body
from halfline.request import Choice, ChoiceDelta, Completion, FinishReason, Receipt, TokenLogprob


class CompletionReply:
    """Turns completions and deltas into JSON objects; remembers which choices of a stream are open."""

    media_type = "text/event-stream"

    def __init__(self, call: CompletionCall, model: str, created: int) -> None:
        self._call = call
        self._envelope: dict[str, object] = {
            "id": call.id,
            "object": "text_completion",
            "created": created,
            "model": model,
            "system_fingerprint": f"halfline-{model}",
        }
        self._open = {
            position * call.num_choices + index
            for position in range(len(call.requests))
            for index in range(call.num_choices)
        }

    def whole(self, completions: Sequence[Completion]) -> dict[str, object]:
        """The whole reply. With `best_of` the best `num_choices` of each prompt, by mean log-probability."""
        choices = [
            _choice_object(position * self._call.num_choices + index, choice, self._call.shows_logprobs)
            for position, completion in enumerate(completions)
            for index, choice in enumerate(best(completion.choices, self._call.num_choices))
        ]
        usage = usage_object([completion.receipt for completion in completions])
        reply = {**self._envelope, "choices": choices, "usage": usage}
        ended_early = any(
            choice.finish_reason == "superseded" for each in completions for choice in each.choices
        )
        return {**reply, "superseded": True} if ended_early else reply

    def delta(self, position: int, delta: ChoiceDelta) -> bytes:
        index = position * self._call.num_choices + delta.index
        logprobs = None
        if self._call.shows_logprobs and delta.logprobs is not None:
            logprobs = _logprobs_object(delta.logprobs)
        return self._event(index, delta.text, logprobs, delta.finish_reason)

    def end(self, receipts: Sequence[Receipt]) -> bytes:
        if not self._call.includes_usage:
            return sse.DONE
        return sse.event({**self._envelope, "choices": [], "usage": usage_object(receipts)}) + sse.DONE

    def cut_short(self) -> bytes:
        """The choices that are still open end as cancelled."""
        endings = [self._event(index, "", None, "cancelled") for index in sorted(self._open)]
        return b"".join(endings) + sse.DONE

    def error(self, error: Exception) -> bytes:
        return sse.event(error_body(error)) + sse.DONE

    def _event(self, index: int, text: str, logprobs: object, reason: FinishReason | None) -> bytes:
        if reason is not None:
            self._open.discard(index)
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": shown(reason)}
        chunk = {**self._envelope, "choices": [choice]}
        return sse.event({**chunk, "superseded": True} if reason == "superseded" else chunk)


def usage_object(receipts: Sequence[Receipt]) -> dict[str, object]:
    """`prompt_tokens` are those of the prompts actually used, `cached_tokens` those of them not computed."""
    num_prompt_tokens = sum(receipt.num_prompt_tokens for receipt in receipts)
    num_generated_tokens = sum(receipt.num_generated_tokens for receipt in receipts)
    return {
        "prompt_tokens": num_prompt_tokens,
        "completion_tokens": num_generated_tokens,
        "total_tokens": num_prompt_tokens + num_generated_tokens,
        "prompt_tokens_details": {"cached_tokens": sum(receipt.num_reused_tokens for receipt in receipts)},
    }


def best(choices: Sequence[Choice], num_choices: int) -> Sequence[Choice]:
    """The `num_choices` with the best mean log-probability; all, as they come, where there are no more."""
    if len(choices) <= num_choices:
        return choices
    return sorted(choices, key=_mean_logprob, reverse=True)[:num_choices]


def _mean_logprob(choice: Choice) -> float:
    """Over the generated tokens, which come last: an echoed prompt is the same for all. No tokens: 0."""
    generated = (choice.logprobs or ())[-len(choice.token_ids) :] if choice.token_ids else ()
    logprobs = [token.logprob for token in generated if token.logprob is not None]
    return math.fsum(logprobs) / len(logprobs) if logprobs else 0.0


def _choice_object(index: int, choice: Choice, shows_logprobs: bool) -> dict[str, object]:
    logprobs = None
    if shows_logprobs and choice.logprobs is not None:
        logprobs = _logprobs_object(choice.logprobs)
    reason = shown(choice.finish_reason)
    return {"index": index, "text": choice.text, "logprobs": logprobs, "finish_reason": reason}


def shown(reason: FinishReason | None) -> str | None:
    """The reason as clients of OpenAI's know it."""
    return "length" if reason in ("superseded", "deadline") else reason


def _logprobs_object(tokens: Sequence[TokenLogprob]) -> Mapping[str, object]:
    """Four parallel lists. A token that nothing predicts, the first of an echoed prompt, has null entries."""
    return {
        "tokens": [token.text for token in tokens],
        "token_logprobs": [token.logprob for token in tokens],
        "top_logprobs": [_top_object(token) for token in tokens],
        "text_offset": [token.offset for token in tokens],
    }


def _top_object(token: TokenLogprob) -> dict[str, float] | None:
    """Text to log-probability, the chosen token always among them as OpenAI does it.

    Tokens that are not whole characters may share a text; the likelier one stays.
    """
    if token.logprob is None:
        return None
    top: dict[str, float] = {}
    for _, text, logprob in token.top:
        top[text] = max(logprob, top.get(text, -math.inf))
    top.setdefault(token.text, token.logprob)
    return top
