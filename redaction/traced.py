"""Tracebacks without values: files, lines, functions, error classes, and messages without quoted values."""

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from redaction.text import message_of


def traced(error: BaseException) -> str:
    """Format the traceback of an error and its causes: files, lines, functions, and messages without quoted values.

    The result has no source lines and no local variables."""
    lines: list[str] = []
    seen: set[int] = set()
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        chain.append(following)
        following = following.__cause__ or (None if following.__suppress_context__ else following.__context__)
    for cause in reversed(chain):
        frames = traceback.StackSummary.extract(traceback.walk_tb(cause.__traceback__), lookup_lines=False)
        lines += [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}' for frame in frames]
        lines.append(message_of(cause))
        if isinstance(cause, BaseExceptionGroup):
            lines += [traced(inner) for inner in cause.exceptions]
    return "Traceback (most recent call last):\n" + "\n".join(lines)


def trace_without_values(report: Callable[[str, BaseException], None]) -> None:
    """Report uncaught errors of all threads instead of printing them as Python does."""

    def main(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            report("uncaught exception", error)

    def thread(arguments: Any) -> None:
        if arguments.exc_value is not None and not isinstance(arguments.exc_value, SystemExit):
            name = arguments.thread.name if arguments.thread else "?"
            report(f"uncaught exception in thread {name}", arguments.exc_value)

    def unraisable(arguments: Any) -> None:
        if arguments.exc_value is not None:
            report("exception ignored", arguments.exc_value)

    sys.excepthook, threading.excepthook, sys.unraisablehook = main, thread, unraisable
