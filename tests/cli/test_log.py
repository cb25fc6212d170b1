"""A log that cannot be written costs a line and nothing else."""

import io

import pytest
import structlog

from cli import log


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def test_a_line_that_cannot_be_written_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Full())
    log.configure_logging("info")
    structlog.get_logger().warning("the disk is full")
