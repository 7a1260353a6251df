"""How a keystroke is put to a server, and what its events say: one class per dialect.

Every server is asked for the same: one line, greedily, of at most `MAX_TOKENS` tokens.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from halfline.bench.keystrokes import Keystroke
from halfline.bench.replay.wire import Connection, ReplayFailed

MAX_TOKENS = 24
WINDOW_LINES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one keystroke. `ms` None: the next keystroke came first; `text` is what had come until then.

    Token counts are the server's own, None where it had not said them: `prompt_tokens` that it read, `reused_tokens`
    of them that it did not compute, `generated_tokens`. `prompt` is the text up to the cursor that the model knew when
    it answered, None where nobody knows. `tier` is where the answer came from.
    """

    text: str
    ms: float | None
    first_ms: float | None
    prompt_tokens: int | None = None
    reused_tokens: int | None = None
    generated_tokens: int | None = None
    tier: str = ""
    prompt: str | None = None
    receipt: Mapping[str, Any] | None = None


class Dialect(Protocol):
    """One typist's view of a server."""

    def ask(self, connection: Connection, keystroke: Keystroke, within_s: float | None) -> Answer: ...

    def explained(self, connection: Connection, keystroke: Keystroke, answer: Answer) -> Answer:
        """The answer with what the server tells afterwards, when nobody's time is measured."""


class OpenAI:
    """POST /v1/completions with the whole document: the server chooses what the model sees."""

    def __init__(self, path: str, user: str) -> None:
        self._path = path
        self._user = user

    def ask(self, connection: Connection, keystroke: Keystroke, within_s: float | None) -> Answer:
        body = {
            "prompt": keystroke.prefix,
            "suffix": keystroke.suffix,
            "metadata": {"path": self._path},
            "user": self._user,
            "max_tokens": MAX_TOKENS,
            "stop": ["\n"],
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        events = connection.ask("/v1/completions", json.dumps(body).encode(), within_s)
        pieces = [(at, event) for at, event in events.data if event.get("choices")]
        text = "".join(event["choices"][0]["text"] for _, event in pieces)
        superseded = any(event.get("superseded") for _, event in pieces)
        usage = next((event["usage"] for _, event in events.data if event.get("usage")), None)
        known_id = next((event["id"] for _, event in pieces), None)
        first = next((at for at, event in pieces if event["choices"][0]["text"]), events.ended_s)
        return Answer(
            text=text,
            ms=None if superseded else _ms(events.ended_s),
            first_ms=_ms(first),
            prompt_tokens=usage and usage["prompt_tokens"],
            reused_tokens=usage and (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
            generated_tokens=usage and usage["completion_tokens"],
            tier=events.headers.get("x-cache", ""),
            receipt=None if known_id is None else {"id": known_id},
        )

    def explained(self, connection: Connection, keystroke: Keystroke, answer: Answer) -> Answer:
        if answer.receipt is None:
            return answer
        status, body = connection.get(f"/v1/completions/{answer.receipt['id']}/why")
        if status != 200:
            return answer  # another server than ours, or it has forgotten
        receipt = json.loads(body)
        return replace(
            answer,
            receipt=receipt,
            prompt=prompt_text(keystroke, receipt["ledger"]),
            tier=receipt.get("tier", answer.tier),
        )


def prompt_text(keystroke: Keystroke, ledger: Mapping[str, Any]) -> str | None:
    """What before the cursor the model read or was made to say first, by the receipt; None when it does not tell."""
    length = ledger.get("prefix_characters")
    start = ledger.get("prefix_characters_left_out")
    if not isinstance(length, int) or not isinstance(start, int):
        return None
    return keystroke.prefix[start : start + length]


class LlamaCompletion:
    """llama-server's POST /completion, with what stands before the cursor as the prompt."""

    def __init__(self, slot: int | None, window_lines: int | None) -> None:
        """`slot` is this typist's own: what it holds is never given to another one; None: the server chooses.
        `window_lines` None: all there are.
        """
        self._slot = {} if slot is None else {"id_slot": slot}
        self._window_lines = window_lines

    def ask(self, connection: Connection, keystroke: Keystroke, within_s: float | None) -> Answer:
        prompt = keystroke.prefix if self._window_lines is None else keystroke.window(self._window_lines)[0]
        body = {
            "prompt": prompt,
            "n_predict": MAX_TOKENS,
            "stop": ["\n"],
            "temperature": 0,
            # Greedy at the least cost: no filter is computed that could not change the choice.
            "samplers": ["top_k"],
            "top_k": 1,
            "stream": True,
            "cache_prompt": True,
            **self._slot,
            # Without it the last event repeats the whole prompt.
            "response_fields": ["content", "stop", "timings", "tokens_predicted"],
        }
        events = connection.ask("/completion", json.dumps(body).encode(), within_s)
        text = "".join(event.get("content", "") for _, event in events.data if not event.get("stop"))
        first = next((at for at, event in events.data if event.get("content")), events.ended_s)
        timings = events.data[-1][1].get("timings") if events.ended_s is not None else None
        if events.ended_s is not None and timings is None:
            raise ReplayFailed(f"/completion ended with {events.data[-1][1]}")
        return Answer(
            text=text,
            ms=_ms(events.ended_s),
            first_ms=_ms(first),
            prompt_tokens=timings and timings["prompt_n"] + timings.get("cache_n", 0),
            reused_tokens=timings and timings.get("cache_n", 0),
            generated_tokens=timings and timings["predicted_n"],
            prompt=prompt,
        )

    def explained(self, connection: Connection, keystroke: Keystroke, answer: Answer) -> Answer:
        return answer


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
