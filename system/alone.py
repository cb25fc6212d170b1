"""Reading a library without others that it would read along wherever they are installed."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def without(*libraries: str) -> Iterator[None]:
    """In this block these libraries are as if they were not installed, where nobody has read them yet.

    Some libraries read others on the chance that somebody wants both, which takes longer than all else of a start:
    structlog reads rich to draw traces that nobody asks it for, redis reads OpenTelemetry's SDK to measure itself.
    """
    hidden: dict[str, None] = {name: None for name in libraries if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # what Python documents for a module that must not be read
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
