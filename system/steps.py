"""Work in steps: each step runs for many requests before the next step, so that its code stays in the CPU cache."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A generator that yields between steps and returns a result."""


def finish_steps(steps: Steps[T]) -> T:
    """Run the generator to its end, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
