"""One line per event, whatever is in it."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from halfline.telemetry.log import fields, set_up_logging
from halfline.telemetry.options import TelemetryOptions


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("halfline")
    before = (list(root.handlers), root.level, ours.level)
    yield
    root.handlers[:], root.level, ours.level = before
    ours.setLevel(before[2])


def logged(options: TelemetryOptions, message: str, **values: object) -> str:
    stream = io.StringIO()
    set_up_logging(options, stream)
    logging.getLogger("halfline.test").info(message, extra=fields(**values))
    return stream.getvalue()


def test_a_text_line_is_key_value_with_quotes_only_where_needed() -> None:
    line = logged(TelemetryOptions(), "request", route="/v1/models", ms=1.26, note='a "b"\nc', none=None)
    assert line.endswith('event=request route=/v1/models ms=1.3 note="a \\"b\\"\\nc"\n')
    assert line.count("\n") == 1


def test_no_control_character_reaches_the_terminal() -> None:
    assert "\x1b" not in logged(TelemetryOptions(), "x", note="\x1b[31m")


def test_a_json_line_is_one_object() -> None:
    event = json.loads(logged(TelemetryOptions(log_format="json"), "request", status=200, note="a\nb"))
    assert event["event"] == "request"
    assert event["level"] == "info"
    assert (event["status"], event["note"]) == (200, "a\nb")


def test_what_is_less_severe_than_the_level_is_not_written() -> None:
    assert logged(TelemetryOptions(log_level="warning"), "request") == ""


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_exception_brings_its_traceback(log_format) -> None:
    stream = io.StringIO()
    set_up_logging(TelemetryOptions(log_format=log_format), stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("halfline.test").exception("failed")
    assert "Traceback" in stream.getvalue()
    assert "ValueError: broken" in stream.getvalue()
