"""`importbook push`, `watch` and `errors` against a running service, in a real terminal and without one."""

import csv
import itertools
import json
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from importledger_client import Client
from importledger_client.answers import RunError
from importledger_client.book import ERRORS, book
from importledger_client.sources import Source
from tests.support.importbook import COMMAND, access_to, environment, importbook
from tests.support.running import Importer, RunningService, processed, wait_for
from tests.support.terminal import Terminal

ACCOUNTS = 60
_SGR = re.compile(rb"\x1b\[[0-9;]*m")


@pytest.fixture
def importer(service: RunningService) -> Importer:
    return service.importer()


@pytest.fixture
def access(service: RunningService, importer: Importer) -> Mapping[str, str]:
    return access_to(service, importer)


def steps(shown: str) -> list[str]:
    """The next commands that are named."""
    return re.findall(r"^next:  importbook (.*)$", shown, re.MULTILINE)


def write_book(folder: Path, supplier: str, count: int = ACCOUNTS, *, spoilt: tuple[int, ...] = ()) -> None:
    lines = []
    for number, entry in enumerate(book(supplier, count), 1):
        account = msgspec.json.decode(entry.body)
        if number in spoilt:
            ERRORS[0][1](account)
        lines.append(msgspec.json.encode(account))
    (folder / "book.ndjson").write_bytes(b"\n".join(lines) + b"\n")


def test_a_book_is_pushed_refused_accounts_are_mended_and_pushed_again(
    tmp_path: Path, importer: Importer, access: Mapping[str, str]
) -> None:
    write_book(tmp_path, importer.supplier, spoilt=(3, 7))
    first = importbook("push", "book.ndjson", "--run", "reh-1", "--json", at=tmp_path, access=access)
    assert first.returncode == 1
    summary = {"lines": ACCOUNTS, "accepted": ACCOUNTS - 2, "replayed": 0, "refused": 2, "warned": 0}
    assert json.loads(first.stdout.splitlines()[-1]) == {"summary": summary}
    assert steps(first.stderr) == ["errors reh-1"]

    table = (tmp_path / "reh-1.failures.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table] == ["line", "3", "7"]
    shown = importbook("errors", "reh-1", at=tmp_path, access=access)
    assert shown.returncode == 0
    assert "invalid_phone_number  customers[].mobile" in shown.stdout
    assert "Fixing this 1 clears 100 %" in shown.stdout
    assert "+99 99" in shown.stdout
    assert "+49 12" not in shown.stdout
    assert steps(shown.stdout) == ["push reh-1.failures.ndjson --run reh-1"]

    failures = tmp_path / "reh-1.failures.ndjson"
    failures.write_bytes(failures.read_bytes().replace(b"+49 12", b"+49 30 23125123"))
    again = importbook("push", failures.name, at=tmp_path, access=access)
    assert again.returncode == 0, again.stdout
    assert "run reh-1 · create" in again.stdout
    assert "accepted 2 · replayed 0 · refused 0" in again.stdout


def test_a_mended_rehearsal_does_not_propose_to_send_only_what_was_mended(
    tmp_path: Path, importer: Importer, access: Mapping[str, str]
) -> None:
    write_book(tmp_path, importer.supplier, spoilt=(3,))
    rehearse = ("--mode", "validate", "--run", "reh-1")
    assert importbook("push", "book.ndjson", *rehearse, at=tmp_path, access=access).returncode == 1
    failures = tmp_path / "reh-1.failures.ndjson"
    failures.write_bytes(failures.read_bytes().replace(b"+49 12", b"+49 30 23125123"))
    mended = importbook("push", failures.name, *rehearse, at=tmp_path, access=access)
    assert mended.returncode == 0, mended.stdout
    assert "Correct them in the whole book, too, before you send it." in mended.stdout
    assert steps(mended.stdout) == []


def with_broken_postcodes(folder: Path, supplier: str, *broken: int) -> None:
    """A book in which these accounts are accepted, with a warning."""
    write_book(folder, supplier)
    lines = (folder / "book.ndjson").read_bytes().splitlines()
    for number in broken:
        account = msgspec.json.decode(lines[number - 1])
        account["billing_postcode"] = "=5066"
        lines[number - 1] = msgspec.json.encode(account)
    (folder / "book.ndjson").write_bytes(b"\n".join(lines) + b"\n")


WARNED = "5  invalid_postcode  billing_postcode"


@pytest.mark.parametrize("mode", ["create", "validate", "dry_run"])
def test_warnings_reach_the_importer(
    tmp_path: Path, importer: Importer, access: Mapping[str, str], mode: Literal["create", "validate", "dry_run"]
) -> None:
    with_broken_postcodes(tmp_path, importer.supplier, 2, 3, 5, 7, 11)
    pushed = importbook("push", "book.ndjson", "--run", "reh", "--mode", mode, "--json", at=tmp_path, access=access)
    assert pushed.returncode == 0, pushed.stderr
    assert json.loads(pushed.stdout)["summary"]["warned"] == 5
    assert "refused 0 · with warnings 5" in pushed.stderr
    assert f"Most frequent warnings:\n          {WARNED}" in pushed.stderr
    assert not (tmp_path / "reh.failures.ndjson").exists()
    with (tmp_path / "reh.failures.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["line"], row["severity"], row["code"]) for row in rows] == [
        (str(line), "warning", "invalid_postcode") for line in (2, 3, 5, 7, 11)
    ]
    shown = importbook("errors", "reh", at=tmp_path, access=access)
    assert "run reh: nothing was refused, and nothing has failed." in shown.stdout
    assert "run reh: 5 accounts with warnings" in shown.stdout
    assert WARNED in shown.stdout
    assert ("=9999" in shown.stdout, "=5066" in shown.stdout) == (True, False)


@pytest.mark.parametrize("mode", ["create", "validate", "dry_run"])
def test_a_run_counts_its_warnings(
    tmp_path: Path, importer: Importer, access: Mapping[str, str], mode: Literal["create", "validate", "dry_run"]
) -> None:
    with_broken_postcodes(tmp_path, importer.supplier, 2, 3, 5, 7, 11)
    importbook("push", "book.ndjson", "--run", "reh", "--mode", mode, at=tmp_path, access=access)
    (tmp_path / "reh.failures.csv").unlink()
    with Client(access["IMPORTLEDGER_URL"], access["IMPORTLEDGER_KEY"]) as client:
        wait_for(lambda: client.run(importer.supplier, "reh").warned == 5, "the run counts its warnings")
        assert client.run(importer.supplier, "reh").warnings == (
            RunError(code="invalid_postcode", path="billing_postcode", number=5),
        )
    shown = importbook("errors", "reh", at=tmp_path, access=access)
    assert "run reh: 5 accounts with warnings" in shown.stdout
    assert WARNED in shown.stdout
    watched = importbook("watch", "reh", at=tmp_path, access=access)
    assert f"{ACCOUNTS} accounts" in watched.stdout
    assert "with warnings 5" in watched.stdout


def test_a_profile_shows_warnings(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    with_broken_postcodes(tmp_path, importer.supplier, 2, 3, 5, 7, 11)
    shown = importbook("profile", "book.ndjson", at=tmp_path, access=access)
    assert "with warnings: 5 accounts (8.3 %)" in shown.stdout
    assert WARNED in shown.stdout


def test_a_refused_account_keeps_its_warnings(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    write_book(tmp_path, importer.supplier, 1, spoilt=(1,))
    account = msgspec.json.decode((tmp_path / "book.ndjson").read_bytes())
    account["billing_postcode"] = "5066"
    (tmp_path / "book.ndjson").write_bytes(msgspec.json.encode(account) + b"\n")
    pushed = importbook("push", "book.ndjson", "--json", at=tmp_path, access=access)
    summary = json.loads(pushed.stdout)["summary"]
    assert (summary["refused"], summary["warned"]) == (1, 1)
    (failed,) = (tmp_path / "book.failures.ndjson").read_bytes().splitlines()
    assert [one["code"] for one in msgspec.json.decode(failed)["warnings"]] == ["invalid_postcode"]


def test_pushing_again_is_resuming(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    write_book(tmp_path, importer.supplier)
    first = importbook("push", "book.ndjson", "--wait", at=tmp_path, access=access)
    assert first.returncode == 0, first.stdout + first.stderr
    assert f"PROCESSED {ACCOUNTS}" in first.stdout
    assert steps(first.stdout) == ["manifest book.ndjson -o book.manifest.json"]
    assert "\x1b" not in first.stdout + first.stderr
    again = importbook("push", "book.ndjson", at=tmp_path, access=access)
    assert (again.returncode, "replayed 60" in again.stdout) == (0, True)
    watched = importbook("watch", "book", at=tmp_path, access=access)
    assert watched.returncode == 0
    assert processed(importer) == ACCOUNTS


def test_what_was_accepted_is_waited_for_although_others_were_refused(
    tmp_path: Path, importer: Importer, access: Mapping[str, str]
) -> None:
    write_book(tmp_path, importer.supplier, 5, spoilt=(2,))
    pushed = importbook("push", "book.ndjson", "--run", "some", "--wait", at=tmp_path, access=access)
    assert pushed.returncode == 1, pushed.stdout + pushed.stderr
    assert "PROCESSED 4" in pushed.stdout
    assert steps(pushed.stdout) == ["errors some"]
    counted = importbook("manifest", "book.ndjson", "-o", "m.json", at=tmp_path, access=access)
    assert "next:  importbook reconcile some --manifest m.json" in counted.stdout


@pytest.mark.parametrize("verb", ["watch", "errors"])
def test_a_run_that_is_not_there_is_said_to_be_unknown(
    tmp_path: Path, importer: Importer, access: Mapping[str, str], verb: str
) -> None:
    said = importbook(verb, "none", "--supplier", importer.supplier, at=tmp_path, access=access)
    assert said.returncode == 2
    assert f"The service has no run none of {importer.supplier}." in said.stderr


@pytest.mark.parametrize("words", [("watch",), ("errors",), ("reconcile", "--manifest", "book.ndjson")])
def test_a_run_is_no_place_in_the_file_system(tmp_path: Path, words: tuple[str, ...]) -> None:
    write_book(tmp_path, "X", 1)
    refused = importbook(*words, "../../x", at=tmp_path, access={})
    assert (refused.returncode, "1 to 64 letters" in refused.stderr) == (2, True)


def test_a_rehearsal_leaves_nothing_and_names_the_exact_next_command(
    tmp_path: Path, importer: Importer, access: Mapping[str, str]
) -> None:
    write_book(tmp_path, "SOMEBODY")
    words = ("push", "book.ndjson", "--supplier", importer.supplier)
    rehearsed = importbook(*words, "--mode", "validate", at=tmp_path, access=access)
    assert rehearsed.returncode == 0, rehearsed.stdout
    assert processed(importer) == 0
    (step,) = steps(rehearsed.stdout)
    assert step == f"push book.ndjson --supplier {importer.supplier} --run book --wait"
    assert importbook(*step.split(), at=tmp_path, access=access).returncode == 0
    assert processed(importer) == ACCOUNTS


@pytest.mark.parametrize("share", ["1%", "1"])
def test_too_many_errors_stop_a_push(tmp_path: Path, importer: Importer, access: Mapping[str, str], share: str) -> None:
    write_book(tmp_path, importer.supplier, spoilt=(1, 2, 3))
    stopped = importbook("push", "book.ndjson", "--mode", "validate", "--max-errors", share, at=tmp_path, access=access)
    assert stopped.returncode == 1
    assert "oo many accounts were refused" in stopped.stdout


def test_lines_that_a_reader_loses_end_a_push_with_a_difference(
    tmp_path: Path, importer: Importer, access: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is broken on purpose."""
    write_book(tmp_path, importer.supplier)
    whole = Source._numbered
    monkeypatch.setattr(Source, "_numbered", lambda self, stream: itertools.islice(whole(self, stream), 2))
    ended = importbook("push", "book.ndjson", "--mode", "validate", at=tmp_path, access=access)
    assert ended.returncode == 1
    assert f"2 lines were read and {ACCOUNTS} were counted. Nothing is certified." in ended.stdout


def test_wrong_use_and_nothing_done_are_2(tmp_path: Path, access: Mapping[str, str]) -> None:
    (tmp_path / "empty.ndjson").touch()
    wrong = dict(access) | {"IMPORTLEDGER_KEY": "ilk_wrong"}
    write_book(tmp_path, "X", 1)
    assert importbook("push", "empty.ndjson", at=tmp_path, access=access).returncode == 2
    assert importbook("push", "none.ndjson", at=tmp_path, access=access).returncode == 2
    assert importbook("push", "book.ndjson", at=tmp_path, access=wrong).returncode == 2
    assert importbook("push", "book.ndjson", at=tmp_path).returncode == 2
    for words in (
        ["--mode", "delete"],
        ["--run", "a b"],
        ["--rate", "0"],
        ["--max-errors", "few"],
        ["--max-errors", "200%"],
    ):
        assert importbook("push", "book.ndjson", *words, at=tmp_path, access=access).returncode == 2


def test_a_failure_that_was_emptied_is_refused_here(
    tmp_path: Path, importer: Importer, access: Mapping[str, str]
) -> None:
    (tmp_path / "go.failures.ndjson").write_text('{"line":7,"payload":" ","errors":[]}\n')
    pushed = importbook("push", "go.failures.ndjson", "--json", at=tmp_path, access=access)
    assert json.loads(pushed.stdout) == {
        "summary": {"lines": 1, "accepted": 0, "replayed": 0, "refused": 1, "warned": 0}
    }


def test_standard_input_and_broken_lines(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    write_book(tmp_path, importer.supplier, 2)
    lines = (tmp_path / "book.ndjson").read_bytes().splitlines()
    stdin = lines[0] + b"\n\n{broken\n" + lines[1] + b"\n"
    pushed = importbook("push", "-", "--run", "piped", "--json", at=tmp_path, access=access, stdin=stdin)
    assert pushed.returncode == 1
    assert json.loads(pushed.stdout) == {
        "summary": {"lines": 4, "accepted": 2, "replayed": 0, "refused": 1, "warned": 0}
    }
    (failed,) = (tmp_path / "piped.failures.ndjson").read_bytes().splitlines()
    said = msgspec.json.decode(failed)
    assert (said["line"], said["payload"]) == (3, "{broken")


def test_progress_is_drawn_in_a_terminal(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    write_book(tmp_path, importer.supplier)
    terminal = Terminal("push", "book.ndjson", at=tmp_path, access=access)
    assert terminal.end() == 0
    assert "━".encode() in terminal.shown
    assert b"100 %" in terminal.shown
    assert b"next:" in terminal.shown


def test_a_narrow_terminal_gets_lines_that_fit(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    write_book(tmp_path, importer.supplier)
    terminal = Terminal("push", "book.ndjson", at=tmp_path, access=access, width=30)
    assert terminal.end() == 0
    drawn = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", terminal.shown.split(b"run book")[0])
    assert all(len(line.decode()) <= 30 for line in re.split(rb"[\r\n]+", drawn))


def test_no_color_means_no_color(tmp_path: Path, importer: Importer, access: Mapping[str, str]) -> None:
    write_book(tmp_path, importer.supplier)
    terminal = Terminal("push", "book.ndjson", "--wait", at=tmp_path, access=access, more={"NO_COLOR": "1"})
    assert terminal.end() == 0
    assert {code for code in _SGR.findall(terminal.shown) if re.search(rb"[34]\d", code)} == set()


@pytest.mark.promise("importbook-push-outlives-service")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_is_interrupted_can_be_resumed(
    tmp_path: Path, importer: Importer, access: Mapping[str, str], how: signal.Signals
) -> None:
    write_book(tmp_path, importer.supplier)
    words = ("push", "book.ndjson", "--run", "go")
    terminal = Terminal(*words, "--rate", "5/s", at=tmp_path, access=access)  # it would go on for twelve seconds
    terminal.until("go · [1-9]".encode())  # how many, depends on how long the service takes
    terminal.process.send_signal(how)
    code = terminal.end()
    if how is signal.SIGINT:
        assert code == 130
        assert b"Interrupted" in terminal.shown
        assert b"importbook push book.ndjson --run go" in terminal.shown
    resumed = importbook(*words, "--json", "--wait", at=tmp_path, access=access)
    assert resumed.returncode == 0, resumed.stderr
    summary = json.loads(resumed.stdout)["summary"]
    assert summary["replayed"] > 0
    assert summary["accepted"] + summary["replayed"] == ACCOUNTS
    assert processed(importer) == ACCOUNTS


def test_a_push_outlives_the_api(
    tmp_path: Path, importer: Importer, service: RunningService, access: Mapping[str, str]
) -> None:
    write_book(tmp_path, importer.supplier)
    process = subprocess.Popen(
        [*COMMAND, "push", "book.ndjson", "--rate", "20/s", "--json"],
        cwd=tmp_path,
        env=environment(access),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for(lambda: bool(importer.client.all(importer.supplier).body), "some accounts are there")
    for api in service.processes("api"):
        api.kill()
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    summary = json.loads(out)["summary"]
    assert summary["accepted"] + summary["replayed"] == ACCOUNTS


def test_profile_says_what_is_in_a_book_and_what_would_be_refused(
    tmp_path: Path, importer: Importer, access: Mapping[str, str]
) -> None:
    write_book(tmp_path, importer.supplier, spoilt=(3,))
    lines = (tmp_path / "book.ndjson").read_bytes()
    (tmp_path / "book.ndjson").write_bytes(lines + lines.splitlines()[0] + b"\n")
    shown = importbook("profile", "book.ndjson", at=tmp_path, access=access)
    assert shown.returncode == 0, shown.stderr
    (number,) = [line for line in shown.stdout.splitlines() if line.startswith("external_account_number ")]
    assert "filled 100.0 %" in number
    assert f"distinct {ACCOUNTS}" in number
    assert "DUPLICATES 1" in number
    assert "invalid_phone_number  customers[].mobile" in shown.stdout
    assert processed(importer) == 0
    alone = importbook("profile", "book.ndjson", at=tmp_path)
    assert "The accounts were not checked by the service" in alone.stdout
