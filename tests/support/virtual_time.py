"""An event loop with a virtual clock, which stands still during work and jumps to the next timer when none is left."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Sleeping takes no time here. For what waits for nothing but timers."""

    def __init__(self) -> None:
        self._at = 1_000.0
        super().__init__(_Jumping(self))

    def time(self) -> float:
        return self._at

    def jump(self, seconds: float) -> None:
        self._at += seconds


class _Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("nothing is left that could wake anybody")
        if not ready and timeout:
            self._loop.jump(timeout)
        return ready


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Run the work and return its result."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
