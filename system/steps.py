"""Work in steps: one step is done for many requests before the next, so that its code stays in the CPU cache."""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A generator that yields between steps and returns a result."""


def to_the_end(steps: Steps[T]) -> T:
    """Run all steps, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            given: T = end.value
            return given
