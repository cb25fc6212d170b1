"""One line per thing that happened, on standard error: JSON, or coloured text on a terminal. Ids yes, values never.

Whatever is logged, by our code or by a library's, passes `discretion.shown` on its way out; errors are told without
local variables (`discretion.traced`).
"""

import contextlib
import logging
import sys
from collections.abc import Callable, MutableMapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, TextIO, cast

import msgspec
import structlog

from discretion.shown import cleaned, cleaned_value, said_by, shown
from discretion.traced import traced

_encode_lines = msgspec.json.Encoder().encode_lines


class Unfailing:
    """A stream whose errors are ignored: on a full disk the line is lost, and the answer to the client is not."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


class CleanFormatter(logging.Formatter):
    """For what libraries log: uvicorn, dramatiq, asyncio and all others."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(record.args, tuple):
            record.args = tuple(said_by(one) if isinstance(one, BaseException) else one for one in record.args)
        said = cleaned(f"{record.levelname} {record.name} {record.getMessage()}")
        # Libraries repeat the error below their first line, with all that it quotes.
        return said if error is None else said.split("\n", 1)[0] + "\n" + traced(error)


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
    """Whether lines are written as text for people: for `text`, and for `auto` on a terminal."""
    return form == "text" or (form == "auto" and sys.stderr.isatty())


def tells(level: str) -> bool:
    """Whether what happens without a fault is told at this level."""
    return level in ("debug", "info")


class GatheredLine(Protocol):
    """A line that gathers with others of its kind: a Struct whose fields are what is told."""

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


def configure_logging(level: str, form: str = "auto") -> None:
    """Call it at the entry point; once more changes the level."""
    threshold = getattr(logging, level.upper())
    readable = is_for_people(form)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            tell_error,
            clean,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, Unfailing(sys.stderr))),
    )
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(cast(TextIO, Unfailing(sys.stderr)))
        handler.setFormatter(CleanFormatter())
        root.addHandler(handler)
    root.setLevel(max(threshold, logging.WARNING))
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
