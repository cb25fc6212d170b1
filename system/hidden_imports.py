"""Import a library without its optional dependencies."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hiding(*libraries: str) -> Iterator[None]:
    """Hide these libraries in the block, unless they are already imported.

    Some libraries import other libraries for optional features, which takes most of the time of a start: structlog
    imports rich to draw tracebacks, redis imports the SDK of OpenTelemetry to measure itself.
    """
    hidden: dict[str, None] = {name: None for name in libraries if name not in sys.modules}
    sys.modules.update(hidden)  # type: ignore[arg-type]  # as Python documents it for a module that must not be imported
    try:
        yield
    finally:
        for name in hidden:
            sys.modules.pop(name, None)
