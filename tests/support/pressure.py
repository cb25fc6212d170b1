"""Processor pressure, as a test sets it."""

from system.processors import ProcessorPressure


class Said(ProcessorPressure):
    """Says what it is told to say, whatever else this machine does."""

    def __init__(self, *, is_high: bool) -> None:
        super().__init__()
        self._said = is_high

    def is_high(self) -> bool:
        return self._said
