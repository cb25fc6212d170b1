"""A log that cannot be written costs a line and nothing else."""

import io

import msgspec
import pytest
import structlog

from cli import log


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


class Line(msgspec.Struct):
    text: str

    def readable(self) -> str:
        return f"import ended {self.text}, position 5"


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("text", ["9\nimport ended 1", "9\timport", "9\rimport", "9\u2028import", "9\x1b[2J"])
def test_a_gathered_line_is_one_line_whatever_is_told_in_it(
    form: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_lines(form)([Line(text), Line("plain")])
    said = capsys.readouterr().err
    assert said.count("\n") == 2
    assert form == "json" or all(letter.isprintable() for letter in said.replace("\n", ""))


def test_a_line_that_cannot_be_written_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Full())
    log.configure_logging("info")
    structlog.get_logger().warning("the disk is full")
