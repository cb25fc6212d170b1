"""Each log record is one line, in JSON if set; repetitions are counted; a failed write affects nothing else."""

import contextlib
import io
import json
import logging
import sys
import time
import traceback
import warnings
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from telemetry import log


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


class Line(msgspec.Struct):
    text: str

    def readable(self) -> str:
        return f"import ended {self.text}, position 5"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("text", ["9\nimport ended 1", "9\timport", "9\rimport", "9\u2028import", "9\x1b[2J"])
def test_a_gathered_line_is_one_line_whatever_is_told_in_it(
    form: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_lines(form)([Line(text), Line("plain")])
    text = capsys.readouterr().err
    assert text.count("\n") == 2
    assert form == "json" or all(letter.isprintable() for letter in text.replace("\n", ""))


def test_a_line_that_cannot_be_written_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Full())
    log.begin_process("info")
    structlog.get_logger().warning("the disk is full")


def begin() -> None:
    """Let this process log as a role with the form `json`."""
    logging.getLogger().handlers[:] = []
    log.begin_process("info", "json", is_role=True)


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


@pytest.mark.promise("up-away-terminal-prints")
@pytest.mark.asvs("V16.2.3", "V16.2.4")
def test_whatever_is_printed_is_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    begin()
    print("plain\ntwo of them", file=sys.stderr)
    print("{no json}\nto someone@example.com", file=sys.stderr)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    logging.getLogger("some.library").warning("%s of\n%d", "one", 2)
    logging.getLogger("some.library").warning("arguments %d that do not fit", "x")
    try:
        raise ValueError("'canary'\nrow")
    except ValueError:
        traceback.print_exc()
        logging.getLogger("some.library").exception("it failed")
    structlog.get_logger().info("ours")
    lines = lines_of(capsys)
    events = [line["event"] for line in lines]
    assert all(isinstance(line, dict) for line in lines)
    assert {"plain", "two of them", "{no json}", "to [e-mail]", "one of\n2", "ours", "it failed"} <= set(events)
    assert any("DeprecationWarning: old" in event for event in events)


def test_text_without_an_end_of_line_is_a_line_when_it_is_long(capsys: pytest.CaptureFixture[str]) -> None:
    begin()
    for _ in range(100):
        sys.stderr.write("." * 1_000)
    assert sum(line["event"].count(".") for line in lines_of(capsys)) >= 80_000


@pytest.mark.promise("each-line-log-json")
def test_a_line_that_is_repeated_is_told_once_and_then_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin()
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for attempt in range(100):
        structlog.get_logger().warning("not sealed", reason="away", attempt=attempt)
        logging.getLogger("some.library").warning("error connecting in %r", attempt)
    structlog.get_logger().warning("not sealed", reason="another")
    logging.getLogger("other.library").warning("error connecting in %r", 1)
    assert [(line["event"], line.get("reason")) for line in lines_of(capsys)] == [
        ("not sealed", "away"),
        ("error connecting in 0", None),
        ("not sealed", "another"),
        ("error connecting in 1", None),
    ]
    clock[0] = log.REPEATS_S
    structlog.get_logger().warning("not sealed", reason="away", attempt=100)
    structlog.get_logger().warning("not sealed", reason="away", attempt=101)
    assert [(line["attempt"], line["repeated"]) for line in lines_of(capsys)] == [(100, 99)]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 100)), max_size=80))
def test_every_line_is_shown_or_counted(steps: list[tuple[int, int]]) -> None:
    repeats, at, shown = log.Repeats(), 0.0, dict.fromkeys(range(6), 0)
    at_end = [(word, log.REPEATS_S) for word in shown]
    for word, wait_s in (*steps, *at_end):
        at += wait_s
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "monotonic", lambda at=at: at)
            with contextlib.suppress(structlog.DropEvent):
                shown[word] += 1 + repeats(None, "", {"event": str(word)}).get("repeated", 0)
    assert shown == {word: 1 + sum(step == word for step, _ in steps) for word in shown}


def test_a_line_of_text_becomes_json_without_what_a_log_must_not_hold() -> None:
    assert log.line_as_json('{"event": "x"}', role="api") == '{"event": "x"}'
    line = json.loads(log.line_as_json("to someone@example.com", role="api"))
    assert (line["event"], line["role"], line["level"]) == ("to [e-mail]", "api", "warning")


def test_what_was_repeated_is_forgotten_where_there_is_too_much_of_it() -> None:
    repeats = log.Repeats()
    for number in range(log.MAX_REPEATS + 10):
        repeats(None, "", {"event": f"line {number}"})
    assert len(repeats._shown) == log.MAX_REPEATS
