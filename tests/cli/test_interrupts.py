"""Ctrl-C ends a verb with one word and exit code 130, also at a prompt."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cli.verbs import EXAMPLES
from importledger_client.digest import BUCKETS
from importledger_client.manifest import FORMAT
from tests.support.importbook import COMMAND
from tests.support.running import wait_for
from tests.support.terminal import Terminal

LEDGER = [sys.executable, "-m", "cli.main"]


@pytest.mark.promise("ctrl-c-ends-verb")
@pytest.mark.parametrize(
    ("is_interrupt", "code", "sentence"), [(True, 130, b"Interrupted."), (False, 1, b"Not confirmed: nothing was")]
)
def test_ctrl_c_and_a_no_at_a_prompt_are_named(is_interrupt: bool, code: int, sentence: bytes, folder: Path) -> None:
    terminal = Terminal("erase", "NORDWIND", "NW-1", "--reason", "x", at=folder, access={}, command=LEDGER)
    terminal.until(rb"Go on\?")
    if not is_interrupt:
        terminal.type(b"n\n")
    while is_interrupt and terminal.process.poll() is None:  # one before the process reads is seen at the next
        terminal.process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            terminal.process.wait(2.0)
    assert terminal.end() == code
    assert b"importledger: " + sentence in terminal.shown


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """Takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def interrupted(command: list[str], listening: socket.socket, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a process that gets SIGINT as soon as it has connected."""
    with subprocess.Popen(
        command, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert select.select([listening], [], [], 30)[0]
            process.send_signal(signal.SIGINT)
            shown, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    return process.returncode, shown


@pytest.mark.promise("ctrl-c-ends-verb")
@pytest.mark.parametrize("verb", ["history", "migrate"])
def test_an_interrupted_verb_says_so(verb: str, silent: socket.socket, folder: Path) -> None:
    address = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none?sslmode=disable"
    environment = {"DATABASE_URL": address, "DATABASE_ADMIN_URL": address, "IMPORTLEDGER_DATA_DIR": str(folder)}
    code, complained = interrupted([*LEDGER, *EXAMPLES[verb].split()[1:]], silent, environment)
    assert (code, complained.strip().splitlines()[-1]) == (130, "importledger: Interrupted.")


@pytest.mark.parametrize("verb", ["push", "watch", "reconcile"])
def test_an_interrupted_importbook_says_so(
    verb: str, silent: socket.socket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "book.ndjson").write_text('{"external_account_number": "1", "import_supplier": "NORDWIND"}\n')
    manifest = {"format": FORMAT, "accounts": 1, "buckets": dict.fromkeys(BUCKETS, "0")}
    (folder / "m.json").write_text(json.dumps(manifest))
    words = {"push": ["book.ndjson"], "reconcile": ["a-run", "--manifest", "m.json"]}.get(verb, ["a-run"])
    access = {"IMPORTLEDGER_URL": f"http://127.0.0.1:{silent.getsockname()[1]}", "IMPORTLEDGER_KEY": "none"}
    code, shown = interrupted([*COMMAND, verb, *words, "--supplier", "NORDWIND"], silent, access)
    assert code == 130
    assert "Interrupted." in shown


@pytest.mark.parametrize(
    ("number", "is_computing"),
    [(signal.SIGINT, False), (signal.SIGHUP, False), (signal.SIGTERM, True)],
)
def test_an_ended_importbook_leaves_no_rows_behind(number: signal.Signals, is_computing: bool, folder: Path) -> None:
    """Also if the connection of the terminal is cut, or if the engine computes and has its own error for a signal."""
    (folder / "temporary").mkdir()
    (folder / "k.csv").write_text("NR\n" + "".join(f"{row}\n" for row in range(300_000)))
    slow = "concat('aaaaaaaaaa', NR)"
    for _ in range(2):
        slow = f"replace({slow}, 'a', '{'a' * 40}')"
    (folder / "m.yaml").write_text(f'where: "length({slow}) > 0"\naccount:\n  external_account_number: NR\n')
    command = [*COMMAND, "map", "check", "m.yaml", "k.csv", "--supplier", "NORDWIND"]
    environment = os.environ | {"TMPDIR": str(folder / "temporary")}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        rows = partial((folder / "temporary").glob, "importbook-*/rows.csv")
        wait_for(lambda: any(rows()), "the rows are written")
        if is_computing:
            wait_for(lambda: not any(rows()), "the engine has read the rows, and chooses them")
        process.send_signal(number)
        shown, _ = process.communicate(timeout=60)
    assert (process.returncode, b"Interrupted." in shown) == (130, True), shown
    assert not any((folder / "temporary").iterdir())
