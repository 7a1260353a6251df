"""What servers say becomes an answer, with their own counts."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from halfline.bench.keystrokes import Keystroke
from halfline.bench.replay.dialects import LlamaCompletion, OpenAI, prompt_text
from halfline.bench.replay.wire import Connection, Events, ReplayFailed

_KEYSTROKE = Keystroke(7, "one\ntwo", "\nthree")


class _Said:
    """A connection whose server says what it was given to say."""

    def __init__(self, events: Events, why: Mapping[str, Any] | None = None) -> None:
        self._events = events
        self._why = why
        self.body: dict[str, Any] = {}

    def ask(self, path: str, body: bytes, within_s: float | None) -> Events:
        self.body = json.loads(body)
        return self._events

    def get(self, path: str) -> tuple[int, bytes]:
        return (404, b"") if self._why is None else (200, json.dumps(self._why).encode())


def _chunk(text: str, **more: object) -> dict[str, object]:
    return {"id": "cmpl-1", "choices": [{"text": text}], **more}


_USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 7}}


def test_an_openai_stream_is_its_text_its_usage_and_its_tier() -> None:
    said = [
        (0.01, _chunk("")),
        (0.02, _chunk("ab")),
        (0.03, _chunk("c")),
        (0.04, {"choices": [], "usage": _USAGE}),
    ]
    connection = _Said(Events(said, {"x-cache": "typed"}, 0.04))
    answer = OpenAI("a.py", "me").ask(cast(Connection, connection), _KEYSTROKE, None)
    assert (answer.text, answer.ms, answer.first_ms, answer.tier) == ("abc", 40.0, 20.0, "typed")
    assert (answer.prompt_tokens, answer.reused_tokens, answer.generated_tokens) == (9, 7, 3)
    assert connection.body["prompt"] == "one\ntwo" and connection.body["metadata"] == {"path": "a.py"}


def test_a_superseded_answer_was_not_shown() -> None:
    said = Events([(0.01, _chunk("a", superseded=True))], {}, 0.01)
    assert OpenAI("a.py", "me").ask(cast(Connection, _Said(said)), _KEYSTROKE, None).ms is None


def test_a_receipt_tells_the_prompts_text() -> None:
    ledger = {"prefix_characters": 3, "prefix_characters_left_out": 4}
    connection = cast(
        Connection, _Said(Events([(0.01, _chunk("a"))], {}, 0.01), {"ledger": ledger, "tier": "typed"})
    )
    dialect = OpenAI("a.py", "me")
    answer = dialect.explained(connection, _KEYSTROKE, dialect.ask(connection, _KEYSTROKE, None))
    assert answer.prompt == "two" and answer.tier == "typed"
    assert prompt_text(_KEYSTROKE, {"mode": "raw"}) is None


def test_a_server_without_receipts_leaves_an_answer_as_it_is() -> None:
    connection = cast(Connection, _Said(Events([(0.01, _chunk("a"))], {}, 0.01)))
    dialect = OpenAI("a.py", "me")
    answer = dialect.ask(connection, _KEYSTROKE, None)
    assert dialect.explained(connection, _KEYSTROKE, answer) is answer


def test_llama_servers_stream_is_its_content_and_its_timings() -> None:
    last = {"stop": True, "content": "", "timings": {"prompt_n": 2, "cache_n": 7, "predicted_n": 3}}
    connection = _Said(Events([(0.01, {"content": "ab"}), (0.02, {"content": "c"}), (0.03, last)], {}, 0.03))
    answer = LlamaCompletion(5, 1).ask(cast(Connection, connection), _KEYSTROKE, None)
    assert (answer.text, answer.ms, answer.first_ms) == ("abc", 30.0, 10.0)
    assert (answer.prompt_tokens, answer.reused_tokens, answer.generated_tokens) == (9, 7, 3)
    assert answer.prompt == "two" and connection.body["id_slot"] == 5


def test_llama_servers_errors_within_a_stream_are_errors() -> None:
    said = Events([(0.01, {"error": {"message": "too long"}})], {}, 0.01)
    with pytest.raises(ReplayFailed, match="too long"):
        LlamaCompletion(0, None).ask(cast(Connection, _Said(said)), _KEYSTROKE, None)
