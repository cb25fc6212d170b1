"""Tools and buffers that only one thread may use at a time, kept for whoever is next."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Spare(Generic[T]):
    """The next one is the last that was used, whoever asks: it is in the processor's caches still."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._kept: list[T] = []

    def take(self) -> T:
        try:
            return self._kept.pop()
        except IndexError:
            return self._make()

    def give_back(self, tool: T) -> None:
        """Unless its work has failed: then it is left."""
        self._kept.append(tool)
