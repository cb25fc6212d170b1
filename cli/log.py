"""One line per thing that happened, on standard error: JSON, or coloured text on a terminal. Ids yes, values never."""

import logging
import sys

import structlog


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
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(
        level=max(threshold, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
