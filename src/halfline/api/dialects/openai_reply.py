"""Completions as OpenAI's POST /v1/completions answers them: one JSON object, or chunks of a stream.

Choices of several prompts are numbered prompt-major: prompt p's choice c is p * n + c. `text_offset` counts
characters from the start of the choice's own text, an echoed prompt included.

A superseded choice says `length`, which to every client means that the text might go on; the object, and in a stream
the choice's last event, has `"superseded": true` beside.
"""

import math
from collections.abc import Mapping, Sequence

from halfline.api.dialects.openai_body import CompletionCall
from halfline.request import Choice, ChoiceDelta, Completion, FinishReason, Receipt, TokenLogprob


def completion_object(
    call: CompletionCall, completions: Sequence[Completion], model: str, created: int
) -> dict[str, object]:
    """The whole reply. With `best_of` the best `num_choices` of each prompt, by mean log-probability."""
    choices = [
        _choice_object(position * call.num_choices + index, choice, call.shows_logprobs)
        for position, completion in enumerate(completions)
        for index, choice in enumerate(_best(completion.choices, call.num_choices))
    ]
    usage = usage_object([completion.receipt for completion in completions])
    reply = {**_envelope(call, model, created), "choices": choices, "usage": usage}
    return {**reply, "superseded": True} if superseded(completions) else reply


def superseded(completions: Sequence[Completion]) -> bool:
    """Whether a newer request took the place of this one before it was done."""
    return any(
        choice.finish_reason == "superseded" for completion in completions for choice in completion.choices
    )


class ChunkWriter:
    """Turns deltas into the stream's JSON objects; remembers which choices are open."""

    def __init__(self, call: CompletionCall, model: str, created: int) -> None:
        self._call = call
        self._envelope = _envelope(call, model, created)
        self._open = {
            position * call.num_choices + index
            for position in range(len(call.requests))
            for index in range(call.num_choices)
        }

    def chunk(self, position: int, delta: ChoiceDelta) -> dict[str, object]:
        """One delta of the prompt at `position`."""
        index = position * self._call.num_choices + delta.index
        logprobs = None
        if self._call.shows_logprobs and delta.logprobs is not None:
            logprobs = _logprobs_object(delta.logprobs)
        return self._chunk(index, delta.text, logprobs, delta.finish_reason)

    def endings(self, reason: FinishReason) -> list[dict[str, object]]:
        """Last chunks of the choices that are still open, for a stream that ends before they do."""
        return [self._chunk(index, "", None, reason) for index in sorted(self._open)]

    def usage(self, receipts: Sequence[Receipt]) -> dict[str, object]:
        """The extra last chunk of `stream_options.include_usage`."""
        return {**self._envelope, "choices": [], "usage": usage_object(receipts)}

    def _chunk(
        self, index: int, text: str, logprobs: object, reason: FinishReason | None
    ) -> dict[str, object]:
        if reason is not None:
            self._open.discard(index)
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": _shown(reason)}
        chunk = {**self._envelope, "choices": [choice]}
        return {**chunk, "superseded": True} if reason == "superseded" else chunk


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


def _envelope(call: CompletionCall, model: str, created: int) -> dict[str, object]:
    return {
        "id": call.id,
        "object": "text_completion",
        "created": created,
        "model": model,
        "system_fingerprint": f"halfline-{model}",
    }


def _best(choices: Sequence[Choice], num_choices: int) -> Sequence[Choice]:
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
    reason = _shown(choice.finish_reason)
    return {"index": index, "text": choice.text, "logprobs": logprobs, "finish_reason": reason}


def _shown(reason: FinishReason | None) -> str | None:
    return "length" if reason == "superseded" else reason


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
