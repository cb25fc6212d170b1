"""One line per event on standard error: JSON, or coloured text on a terminal. Lines have ids, never personal values.

Every entry point calls `begin_process` first. After that, all lines, including lines of libraries, pass
`redaction.text`, and errors are reported without local variables (`redaction.traced`).
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

from redaction.text import MAX_CLEANED, cleaned, cleaned_value, escaped, message_of
from redaction.traced import trace_without_values, traced

REPEATS_S = 60.0
"""Time between two lines with the number of a line's repetitions [seconds]."""
MAX_REPEATS = 1_000
"""Different lines whose repetitions are counted. For a further line, the least recently logged line is dropped."""

_encode_lines = msgspec.json.Encoder().encode_lines
_decode_line = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Unfailing:
    """Stream that ignores errors: if the disk is full, lines are lost and requests do not fail."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(
            OSError, ValueError
        ):  # a full disk, or a stream that is closed at the end of the process
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class JsonLines:
    """Stream that converts lines of libraries and of Python to JSON objects, unless a line is JSON."""

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
    """Return a line as a JSON object without secrets and personal data. A JSON object stays unchanged."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeError):
        _decode_line(line)
        return line
    at = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    return json.dumps({"event": cleaned(line), "level": "warning", **more, "timestamp": at})


class LibraryHandler(logging.Handler):
    """Logs the records of libraries (uvicorn, dramatiq, psycopg, asyncio, warnings) in our own form."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        message = _message_of(record)
        # After the first line of a message, libraries repeat the error with all its values.
        more = {} if error is None else {"exc_info": error}
        message = message if error is None else message.split("\n", 1)[0]
        level = max(record.levelno, logging.DEBUG)
        structlog.get_logger().log(level, message, logger=record.name, template=str(record.msg), **more)


def _message_of(record: logging.LogRecord) -> str:
    if isinstance(record.msg, BaseException):
        return message_of(record.msg)
    if isinstance(record.args, tuple):
        record.args = tuple(message_of(part) if isinstance(part, BaseException) else part for part in record.args)
    try:
        return record.getMessage()
    except Exception:  # the arguments do not fit the message
        return str(record.msg)


class Repeats:
    """Processor that logs a line once, drops and counts its repetitions, and logs their number once per interval.

    Lines with the same text and other numbers count as repetitions. For lines of libraries, logger and template are
    compared.
    """

    def __init__(self) -> None:
        self._shown: dict[int, tuple[float, int]] = {}
        """Time at which the line was last written, and number of later repetitions, by a hash of the line."""

    def __call__(self, _: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Raise DropEvent for a repetition within the interval."""
        template = line.pop("template", None)
        kind = {name: line.get(name) for name in ("logger", "exception")} | {"event": template} if template else line
        key = hash(tuple(f"{name}={value}" for name, value in kind.items() if not isinstance(value, int | float)))
        at, (shown_at, repeats) = time.monotonic(), self._shown.pop(key, (-inf, 0))
        is_repeated = at - shown_at < REPEATS_S
        self._shown[key] = (shown_at, repeats + 1) if is_repeated else (at, 0)
        if len(self._shown) > MAX_REPEATS:
            del self._shown[next(iter(self._shown))]
        if is_repeated:
            raise structlog.DropEvent
        if repeats:
            line["repeated"] = repeats
        return line


def trace_error(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace `exc_info` by a trace without values."""
    exc_info = line.pop("exc_info", None)
    error = exc_info if isinstance(exc_info, BaseException) else sys.exc_info()[1] if exc_info else None
    if error is not None:
        line["exception"] = traced(error)
    return line


def clean(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Redact secrets and addresses in a line."""
    return {_clean_name(name): value if type(value) is int else cleaned_value(value) for name, value in line.items()}


@lru_cache(maxsize=256)
def _clean_name(name: str) -> str:
    """Return the name without secrets. The results are cached, since there are few names."""
    return cleaned(name)


def is_for_people(form: str) -> bool:
    """Return True if lines are text for people: for `text`, and for `auto` on a terminal."""
    return form == "text" or (form == "auto" and sys.stderr.isatty())


def is_verbose(level: str) -> bool:
    """Return True if this level logs more than warnings and errors."""
    return level in ("debug", "info")


class GatheredLine(Protocol):
    """Struct with the fields of a log line, for lines that are written together."""

    def readable(self) -> str:
        """Return the line as text for people, without a line end."""


def write_lines(form: str) -> Callable[[Sequence[GatheredLine]], None]:
    """Return a function that writes many lines at once, without the processors. The values must not need redaction.

    Names that importers send cannot break a line in two.
    """
    stream = Unfailing(sys.stderr)

    def write(lines: Sequence[GatheredLine]) -> None:
        stream.write(
            "".join([f"{escaped(line.readable())}\n" for line in lines])
            if is_for_people(form)
            else _encode_lines(lines).decode()
        )
        stream.flush()

    return write


_settings = ["warning", "auto"]


def arguments_for_children() -> list[str]:
    """Return the arguments (level, format) of `begin_process` for a child process with the same log."""
    return [*_settings]


def form_of_log() -> str:
    """Return the form of this process's log: text, json or auto."""
    return _settings[1]


def begin_process(level: str, form: str = "auto", *, is_role: bool = False) -> None:
    """Set up logging, warnings and traces without values.

    Every entry point must call this function first. Another call changes level and form. For a role with the form
    `json`, all other text on standard error becomes JSON objects too.
    """
    _settings[:] = [level, form]
    threshold = getattr(logging, level.upper())
    readable = is_for_people(form)
    stream = sys.stderr._wrapped if isinstance(sys.stderr, JsonLines) else sys.stderr
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            trace_error,
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
    trace_without_values(lambda event, error: structlog.get_logger().critical(event, exc_info=error))
    sys.stderr = cast(TextIO, JsonLines(stream)) if is_role and form == "json" else stream
