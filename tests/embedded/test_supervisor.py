"""A role that dies at each start is reported with its last line, until it stays alive."""

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from embedded import supervisor
from embedded.folder import DataFolder
from embedded.supervisor import Program, Supervisor, last_words
from telemetry import log


@pytest.mark.promise("role-dies-three-times")
def test_a_role_that_dies_three_times_is_told_with_its_last_line_until_it_has_stayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supervisor, "STEADY_AFTER_S", 3600.0)
    result: list[dict[str, str]] = []
    fixed = tmp_path / "fixed"
    script = (
        "import os, sys, time\n"
        f"if os.path.exists({str(fixed)!r}): time.sleep(60)\n"
        "print('importledger: IMPORTLEDGER_MAIL_FROM is not set.', file=sys.stderr)\n"
        "sys.exit(1)"
    )
    running = Supervisor(result.append)
    running.start(Program(name="worker-1", command=[sys.executable, "-c", script], environment=os.environ))
    deadline = time.monotonic() + 120
    running.watch(threading.Event(), lambda: bool(result) or time.monotonic() > deadline)
    assert result == [{"worker-1": "importledger: IMPORTLEDGER_MAIL_FROM is not set."}]
    fixed.touch()
    monkeypatch.setattr(supervisor, "STEADY_AFTER_S", 0.0)
    running.watch(threading.Event(), lambda: len(result) > 1 or time.monotonic() > deadline)
    running.stop()
    assert result[1] == {}
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert {"role": "worker-1", "event": "importledger: IMPORTLEDGER_MAIL_FROM is not set."}.items() <= lines[0].items()


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_of_roles_have_the_form_of_the_log_on_terminals_and_elsewhere(
    form: str, is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log, "_settings", ["info", form])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    script = "import sys; print('\\x1b[1mrelay is active\\x1b[0m', file=sys.stderr)"
    running = Supervisor()
    running.start(Program(name="relay", command=[sys.executable, "-S", "-c", script], environment=os.environ))
    running.watch(threading.Event(), lambda: bool(running._tiers[0][0].last_line))
    running.stop()
    line = capfd.readouterr().err.splitlines()[0]
    if form == "json":
        assert json.loads(line)["role"] == "relay"
    else:
        assert line == ("\x1b[1mrelay is active\x1b[0m" if is_terminal else "relay is active")


def test_programs_that_do_not_stop_are_killed_together_and_not_one_after_the_other() -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(60)"
    )
    running = Supervisor()
    names = [f"worker-{n}" for n in range(40)]
    running.start(
        *(
            Program(name=name, command=[sys.executable, "-S", "-c", script], environment=os.environ, stop_after_s=2)
            for name in names
        )
    )
    running.watch(threading.Event(), lambda: all(child.last_line for tier in running._tiers for child in tier))
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < 2 * len(names) / 2  # one after the other takes twice as long
    assert running.pids() == {}


def test_last_words_are_a_short_sentence() -> None:
    assert last_words('{"event": "a", "exception": "Traceback\\n x\\nKeyError"}') == "a: KeyError"
    assert len(last_words("x" * 1000)) < 400


def test_what_the_supervisor_writes_the_api_reads(tmp_path: Path) -> None:
    from api.endpoints.health import failing_roles

    folder = DataFolder(tmp_path)
    (tmp_path / "secrets").mkdir()
    assert failing_roles(None) == failing_roles(folder.roles_file) == {}
    folder.write_failing_roles({"relay": "no"})
    assert failing_roles(folder.roles_file) == {"relay": "no"}
    assert folder.roles_file.stat().st_mode & 0o777 == 0o600
