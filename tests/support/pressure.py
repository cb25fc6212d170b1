"""Processor pressure, as a test sets it."""

from system.processors import ProcessorPressure


class FixedPressure(ProcessorPressure):
    """Pressure of the given height, whatever else runs on this machine."""

    def __init__(self, *, is_high: bool) -> None:
        super().__init__()
        self._is_high = is_high

    def is_high(self) -> bool:
        return self._is_high
