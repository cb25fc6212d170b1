"""Shifted clocks: for a block in this process, and for a role: `python -m tests.support.clocks SECONDS ROLE`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from eventstore import clock

_true = clock.now


@contextmanager
def another_clock(by: timedelta) -> Iterator[None]:
    """Let every module that is imported see another time than the machine's."""
    try:
        _set(lambda: _true() + by)
        yield
    finally:
        _set(_true)


def _set(other: Callable[[], datetime]) -> None:
    before = clock.now
    for module in [module for module in sys.modules.values() if getattr(module, "now", None) is before]:
        module.now = other  # type: ignore[attr-defined]


if __name__ == "__main__":
    offset = timedelta(seconds=float(sys.argv.pop(1)))
    clock.now = lambda: _true() + offset

    from cli.main import run

    run()
