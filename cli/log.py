"""One line per thing that happened, on standard error: JSON, or coloured text on a terminal. Ids yes, values never."""

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog


class Unfailing:
    """A stream whose failures are nobody's: on a full disk, what is lost is the line and not the answer."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


def configure_logging(level: str) -> None:
    threshold = getattr(logging, level.upper())
    readable = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if readable else [structlog.processors.dict_tracebacks]),
            structlog.dev.ConsoleRenderer() if readable else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, Unfailing(sys.stderr))),
    )
    logging.basicConfig(
        level=max(threshold, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
