"""Answers as OpenAI's chats have them: a message per choice, whole or as deltas; Mistral's infilling answers alike."""

from collections.abc import Sequence

from halfline.api import sse
from halfline.api.dialects.openai_reply import shown, usage_object
from halfline.api.failures import error_body
from halfline.request import Choice, ChoiceDelta, Completion, FinishReason, Receipt, TokenLogprob


class ChatReply:
    """One request's choices. `shows_logprobs` and `includes_usage` as the client asked."""

    media_type = "text/event-stream"

    def __init__(
        self,
        call_id: str,
        model: str,
        created: int,
        num_choices: int,
        *,
        shows_logprobs: bool = False,
        includes_usage: bool = False,
    ) -> None:
        self._envelope: dict[str, object] = {
            "id": call_id,
            "created": created,
            "model": model,
            "system_fingerprint": f"halfline-{model}",
        }
        self._shows_logprobs = shows_logprobs
        self._includes_usage = includes_usage
        self._silent = set(range(num_choices))  # choices that have not said their role
        self._open = set(range(num_choices))

    def whole(self, completions: Sequence[Completion]) -> dict[str, object]:
        (completion,) = completions
        return {
            **self._envelope,
            "object": "chat.completion",
            "choices": [self._choice(choice) for choice in completion.choices],
            "usage": usage_object([completion.receipt]),
        }

    def delta(self, position: int, delta: ChoiceDelta) -> bytes:
        events = []
        if delta.index in self._silent:
            self._silent.discard(delta.index)
            events.append(self._event(delta.index, {"role": "assistant", "content": ""}))
        if delta.text or delta.logprobs:
            events.append(self._event(delta.index, {"content": delta.text}, delta.logprobs))
        if delta.finish_reason is not None:
            self._open.discard(delta.index)
            events.append(self._event(delta.index, {}, reason=delta.finish_reason))
        return b"".join(events)

    def end(self, receipts: Sequence[Receipt]) -> bytes:
        if not self._includes_usage:
            return sse.DONE
        chunk = {**self._envelope, "object": "chat.completion.chunk", "choices": []}
        return sse.event({**chunk, "usage": usage_object(receipts)}) + sse.DONE

    def cut_short(self) -> bytes:
        endings = [self._event(index, {}, reason="cancelled") for index in sorted(self._open)]
        return b"".join(endings) + sse.DONE

    def error(self, error: Exception) -> bytes:
        return sse.event(error_body(error)) + sse.DONE

    def _event(
        self,
        index: int,
        delta: dict[str, str],
        logprobs: tuple[TokenLogprob, ...] | None = None,
        *,
        reason: FinishReason | None = None,
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": self._logprobs(logprobs),
            "finish_reason": shown(reason),
        }
        return sse.event({**self._envelope, "object": "chat.completion.chunk", "choices": [choice]})

    def _choice(self, choice: Choice) -> dict[str, object]:
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": choice.text},
            "logprobs": self._logprobs(choice.logprobs),
            "finish_reason": shown(choice.finish_reason),
        }

    def _logprobs(self, tokens: tuple[TokenLogprob, ...] | None) -> dict[str, object] | None:
        if not self._shows_logprobs or tokens is None:
            return None
        return {"content": [_token(token) for token in tokens]}


def _token(token: TokenLogprob) -> dict[str, object]:
    top = [_alternative(text, logprob) for _, text, logprob in token.top]
    return {**_alternative(token.text, token.logprob), "top_logprobs": top}


def _alternative(text: str, logprob: float | None) -> dict[str, object]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode(errors="replace"))}
