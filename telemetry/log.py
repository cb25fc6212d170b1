"""One line per thing that happened, on standard error: JSON, or coloured text on a terminal. Ids yes, values never.

Every entry point calls `begin_process` first. All lines then pass `redaction.shown`, those of libraries as well, and
errors are reported without local variables (`redaction.traced`).
"""

import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable, MutableMapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import inf
from typing import Any, Protocol, TextIO, cast

import msgspec
import structlog

from redaction.shown import MAX_CLEANED, cleaned, cleaned_value, said_by, shown
from redaction.traced import trace_without_values, traced

REPEATS_S = 60.0
"""Seconds between two lines that report how often a line was repeated."""
MAX_REPEATS = 1_000
"""Different lines whose repetitions are counted. The least recently seen is forgotten first."""

_encode_lines = msgspec.json.Encoder().encode_lines
_decode_line = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Unfailing:
    """A stream whose errors are ignored: on a full disk the line is lost, and the answer to the client is not."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):  # a full disk, or closed at the end of the process
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class JsonLines:
    """A stream whose lines become JSON objects where they are not: for what libraries and Python itself print."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = Unfailing(stream)
        self._wrapped = stream
        self._unfinished = ""

    def write(self, text: str) -> int:
        *lines, rest = (self._unfinished + text).split("\n")
        if len(rest) > MAX_CLEANED:
            lines, rest = [*lines, rest], ""
        self._unfinished = rest
        self._stream.write("".join(f"{line_as_json(line)}\n" for line in lines if line.strip()))
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


def line_as_json(line: str, **more: str) -> str:
    """Return a line that is a JSON object as it is, any other as one, without what a log must not hold."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeError):
        _decode_line(line)
        return line
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": cleaned(line), "level": "warning", **more, "timestamp": at})


class LibraryHandler(logging.Handler):
    """Logs what libraries log (uvicorn, dramatiq, psycopg, asyncio, warnings) as lines of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        said = _message_of(record)
        # Libraries repeat the error below their first line, with all that it quotes.
        more = {} if error is None else {"exc_info": error}
        said = said if error is None else said.split("\n", 1)[0]
        level = max(record.levelno, logging.DEBUG)
        structlog.get_logger().log(level, said, logger=record.name, template=str(record.msg), **more)


def _message_of(record: logging.LogRecord) -> str:
    if isinstance(record.msg, BaseException):
        return said_by(record.msg)
    if isinstance(record.args, tuple):
        record.args = tuple(said_by(one) if isinstance(one, BaseException) else one for one in record.args)
    try:
        return record.getMessage()
    except Exception:  # arguments that do not fit their text
        return str(record.msg)


class Repeats:
    """Shows a line once. Its repetitions are counted, and shown as one line per interval.

    Lines are the same when their texts are: numbers make no difference. Of a library, logger and template count.
    """

    def __init__(self, interval_s: float = REPEATS_S) -> None:
        self._interval_s = interval_s
        self._shown: dict[int, tuple[float, int]] = {}
        """By a hash of the line, since lines may be long: when it was shown, and how often it was left out since."""

    def __call__(self, _: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Raises DropEvent for a repetition within the interval."""
        template = line.pop("template", None)
        told = {name: line.get(name) for name in ("logger", "exception")} | {"event": template} if template else line
        key = hash(tuple(f"{name}={one}" for name, one in told.items() if not isinstance(one, int | float)))
        at, (shown_at, left_out) = time.monotonic(), self._shown.pop(key, (-inf, 0))
        is_repeated = at - shown_at < self._interval_s
        self._shown[key] = (shown_at, left_out + 1) if is_repeated else (at, 0)
        if len(self._shown) > MAX_REPEATS:
            del self._shown[next(iter(self._shown))]
        if is_repeated:
            raise structlog.DropEvent
        if left_out:
            line["repeated"] = left_out
        return line


def tell_error(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """`exc_info` as text, without values."""
    told = line.pop("exc_info", None)
    error = told if isinstance(told, BaseException) else sys.exc_info()[1] if told else None
    if error is not None:
        line["exception"] = traced(error)
    return line


def clean(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The line without secrets and addresses."""
    return {_clean_name(name): one if type(one) is int else cleaned_value(one) for name, one in line.items()}


@lru_cache(maxsize=256)
def _clean_name(name: str) -> str:
    """Names stand in our code, so there are few; whatever else somebody made to one is cleaned like a value."""
    return cleaned(name)


def is_for_people(form: str) -> bool:
    """Return True where lines are text for people: for `text`, and for `auto` on a terminal."""
    return form == "text" or (form == "auto" and sys.stderr.isatty())


def tells(level: str) -> bool:
    """Return True where this level logs more than faults."""
    return level in ("debug", "info")


class GatheredLine(Protocol):
    """A line that gathers with others of its kind: a Struct whose fields are those of the line."""

    def readable(self) -> str:
        """The line as text for people, without its end."""


def write_lines(form: str) -> Callable[[Sequence[GatheredLine]], None]:
    """Writes many lines at once, past the processors: what could have to be cleaned in them has been.

    Each is one line for people, too, whatever an importer calls his accounts.
    """
    stream = Unfailing(sys.stderr)

    def write(lines: Sequence[GatheredLine]) -> None:
        stream.write(
            "".join([f"{shown(line.readable())}\n" for line in lines])
            if is_for_people(form)
            else _encode_lines(lines).decode()
        )
        stream.flush()

    return write


_begun_with = ["warning", "auto"]


def arguments_for_children() -> list[str]:
    """Level and form, for a child that logs as this process does."""
    return [*_begun_with]


def form_of_log() -> str:
    """Form that this process was given for its log: text, json or auto."""
    return _begun_with[1]


def begin_process(level: str, form: str = "auto", *, is_role: bool = False) -> None:
    """Let this process log, warn and fail without values. Every entry point calls it first.

    Another call changes level and form. For a role with the form `json`, whatever else is printed on standard error
    becomes a JSON object as well.
    """
    _begun_with[:] = [level, form]
    threshold = getattr(logging, level.upper())
    readable = is_for_people(form)
    stream = sys.stderr._wrapped if isinstance(sys.stderr, JsonLines) else sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            tell_error,
            clean,
            structlog.processors.add_log_level,
            Repeats(),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, Unfailing(stream))),
    )
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(LibraryHandler())
    root.setLevel(max(threshold, logging.WARNING))
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.captureWarnings(True)
    trace_without_values(_tell_uncaught)
    sys.stderr = cast(TextIO, JsonLines(stream)) if is_role and form == "json" else stream


def _tell_uncaught(where: str, error: BaseException) -> None:
    structlog.get_logger().critical(where, exc_info=error)
