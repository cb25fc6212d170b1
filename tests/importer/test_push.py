"""`importbook push`, `watch`, `errors` and `profile` against a running service, with and without a terminal."""

import csv
import gzip
import io
import json
import re
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from importledger_client import Client, failures
from importledger_client.answers import RunError
from importledger_client.book import ERRORS, book
from importledger_client.commands import common, verbs
from tests.support.importbook import Verb, importbook
from tests.support.running import Importer, RunningService, processed, wait_for
from tests.support.terminal import Terminal

ACCOUNTS = 60
BROKEN = (2, 3, 5, 7, 11)
"""Accounts with a broken postcode: a warning."""
WARNED = "5  invalid_postcode  billing_postcode"
_SGR = re.compile(rb"\x1b\[[0-9;]*m")


def steps(shown: str) -> list[str]:
    """The next commands that are named."""
    return re.findall(r"^next:  importbook (.*)$", shown, re.MULTILINE)


def write_book(
    folder: Path, supplier: str, count: int = ACCOUNTS, *, spoilt: tuple[int, ...] = (), warned: tuple[int, ...] = ()
) -> None:
    lines = []
    for number, entry in enumerate(book(supplier, count), 1):
        account = msgspec.json.decode(entry.body)
        if number in spoilt:
            ERRORS[0][1](account)
        if number in warned:
            account["billing_postcode"] = "=5066"
        lines.append(msgspec.json.encode(account))
    (folder / "book.ndjson").write_bytes(b"\n".join(lines) + b"\n")


def fix_failures(folder: Path) -> None:
    failures = folder / "reh-1.failures.ndjson"
    failures.write_bytes(failures.read_bytes().replace(b"+49 12", b"+49 30 23125123"))


def test_a_book_is_pushed_refused_accounts_are_fixed_and_pushed_again(
    tmp_path: Path, importer: Importer, verb: Verb
) -> None:
    write_book(tmp_path, importer.supplier, spoilt=(3, 7), warned=(3,))
    first = verb("push", "book.ndjson", "--run", "reh-1", "--json", "--wait")
    assert first.returncode == 1
    assert f"PROCESSED {ACCOUNTS - 2}" in first.stderr, "accepted accounts are waited for although others were refused"
    summary = {"lines": ACCOUNTS, "accepted": ACCOUNTS - 2, "replayed": 0, "refused": 2, "warned": 1}
    assert json.loads(first.stdout.splitlines()[-1]) == {"summary": summary}
    assert steps(first.stderr) == ["errors reh-1"]
    assert steps(verb("manifest", "book.ndjson", "-o", "m.json").stdout) == ["reconcile reh-1 --manifest m.json"]
    table = (tmp_path / "reh-1.failures.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table] == ["line", "3", "3", "7"]
    failed = msgspec.json.decode((tmp_path / "reh-1.failures.ndjson").read_bytes().splitlines()[0])
    assert [warning["code"] for warning in failed["warnings"]] == ["invalid_postcode"]
    shown = verb("errors", "reh-1")
    assert shown.returncode == 0
    for text in ("invalid_phone_number  customers[].mobile", "Fixing this 1 clears 100 %", "+99 99"):
        assert text in shown.stdout
    assert "+49 12" not in shown.stdout
    assert steps(shown.stdout) == ["push reh-1.failures.ndjson --run reh-1"]
    fix_failures(tmp_path)
    again = verb("push", "reh-1.failures.ndjson")
    assert again.returncode == 0, again.stdout
    assert "run reh-1 · create" in again.stdout
    assert "accepted 2 · replayed 0 · refused 0" in again.stdout


def test_a_rehearsal_leaves_nothing_and_names_the_exact_next_command(
    tmp_path: Path, importer: Importer, verb: Verb
) -> None:
    write_book(tmp_path, "SOMEBODY", spoilt=(3,))
    rehearse = ("--supplier", importer.supplier, "--mode", "validate", "--run", "reh-1")
    assert verb("push", "book.ndjson", *rehearse).returncode == 1
    fix_failures(tmp_path)
    fixed = verb("push", "reh-1.failures.ndjson", *rehearse)
    assert fixed.returncode == 0, fixed.stdout
    assert "Fix them in the whole book, too, before you send it." in fixed.stdout
    assert steps(fixed.stdout) == []  # to send only these accounts would be wrong
    write_book(tmp_path, "SOMEBODY")
    (step,) = steps(verb("push", "book.ndjson", *rehearse).stdout)
    assert step == f"push book.ndjson --supplier {importer.supplier} --run book --wait"
    assert processed(importer) == 0
    assert verb(*step.split()).returncode == 0
    assert processed(importer) == ACCOUNTS


@pytest.mark.parametrize("mode", ["create", "validate", "dry_run"])
def test_warnings_reach_the_importer(
    tmp_path: Path, importer: Importer, access: Mapping[str, str], verb: Verb, mode: str
) -> None:
    write_book(tmp_path, importer.supplier, warned=BROKEN)
    pushed = verb("push", "book.ndjson", "--run", "reh", "--mode", mode, "--json")
    assert pushed.returncode == 0, pushed.stderr
    assert json.loads(pushed.stdout)["summary"]["warned"] == 5
    assert "refused 0 · with warnings 5" in pushed.stderr
    assert f"Most frequent warnings:\n          {WARNED}" in pushed.stderr
    assert not (tmp_path / "reh.failures.ndjson").exists()
    with (tmp_path / "reh.failures.csv").open(newline="") as file:
        rows = [(row["line"], row["severity"], row["code"]) for row in csv.DictReader(file)]
    assert rows == [(str(line), "warning", "invalid_postcode") for line in BROKEN]
    shown = verb("errors", "reh").stdout
    for text in ("nothing was refused, and nothing has failed.", "5 accounts with warnings", WARNED, "=9999"):
        assert text in shown
    assert "=5066" not in shown
    (tmp_path / "reh.failures.csv").unlink()  # the service counts them, too
    with Client(access["IMPORTLEDGER_URL"], access["IMPORTLEDGER_KEY"]) as client:
        wait_for(lambda: client.run(importer.supplier, "reh").warned == 5, "the run counts its warnings")
        expected = RunError(code="invalid_postcode", path="billing_postcode", number=5)
        assert client.run(importer.supplier, "reh").warnings == (expected,)
    shown = verb("errors", "reh").stdout
    assert "run reh: 5 accounts with warnings" in shown
    assert WARNED in shown
    assert "with warnings 5" in verb("watch", "reh").stdout


def test_pushing_again_is_resuming(tmp_path: Path, importer: Importer, verb: Verb) -> None:
    write_book(tmp_path, importer.supplier)
    first = verb("push", "book.ndjson", "--wait")
    assert first.returncode == 0, first.stdout + first.stderr
    assert f"PROCESSED {ACCOUNTS}" in first.stdout
    assert steps(first.stdout) == ["manifest book.ndjson -o book.manifest.json"]
    assert "\x1b" not in first.stdout + first.stderr
    again = verb("push", "book.ndjson")
    assert (again.returncode, "replayed 60" in again.stdout) == (0, True)
    assert verb("watch", "book").returncode == 0
    assert processed(importer) == ACCOUNTS


@pytest.mark.parametrize("words", [("watch",), ("errors",), ("reconcile", "--manifest", "book.ndjson")])
def test_an_unknown_run_is_named_and_a_run_is_no_place_in_the_file_system(
    tmp_path: Path, importer: Importer, verb: Verb, words: tuple[str, ...]
) -> None:
    write_book(tmp_path, "X", 1)
    refused = verb(*words, "../../x")
    assert (refused.returncode, "1 to 64 letters" in refused.stderr) == (2, True)
    if words[0] != "reconcile":
        unknown = verb(*words, "none", "--supplier", importer.supplier)
        assert unknown.returncode == 2
        assert f"The service has no run none of {importer.supplier}." in unknown.stderr


@pytest.mark.parametrize("why", ["unknown", "paused"])
def test_a_wrong_supplier_moves_neither_note_nor_failures_of_a_run(
    tmp_path: Path, service: RunningService, importer: Importer, verb: Verb, why: str
) -> None:
    write_book(tmp_path, "SOMEBODY", 3, spoilt=(1, 2, 3))
    words = ("push", "book.ndjson", "--run", "go", "--supplier")
    assert verb(*words, importer.supplier).returncode == 1
    files = [tmp_path / ".importbook" / "go.json", tmp_path / "go.failures.ndjson", tmp_path / "go.failures.csv"]
    before = [file.read_bytes() for file in files]
    if why == "paused":
        service.cli("supplier", "status", importer.supplier, "paused")
        wait_for(lambda: "not_ongoing" in verb(*words, importer.supplier).stdout, "the supplier is paused")
    write_book(tmp_path, "SOMEBODY", 5, spoilt=(2,))
    refused = verb(*words, importer.supplier if why == "paused" else "NORDWNID")
    assert refused.returncode == 1
    sentence = "must be ongoing to accept accounts" if why == "paused" else "The import supplier must be one of yours"
    assert sentence in refused.stdout.partition("Refused for the supplier: ")[2]
    assert "Fix these accounts" not in refused.stdout
    assert steps(refused.stdout) == []
    assert [file.read_bytes() for file in files] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [".importbook", "book.ndjson", "go.failures.csv", "go.failures.ndjson"]
    )


def test_a_note_keeps_the_suppliers_of_earlier_pushes(
    tmp_path: Path, service: RunningService, importer: Importer, verb: Verb
) -> None:
    write_book(tmp_path, "SOMEBODY", 1)
    assert verb("push", "book.ndjson", "--run", "go", "--supplier", importer.supplier).returncode == 0
    note = (tmp_path / ".importbook" / "go.json").read_bytes()
    assert verb("push", "book.ndjson", "--run", "go", "--supplier", "OTHER", "--key", "ilk_wrong").returncode == 2
    assert (tmp_path / ".importbook" / "go.json").read_bytes() == note
    other = service.importer()
    access = ("--supplier", other.supplier, "--key", other.api_key)
    assert verb("push", "book.ndjson", "--run", "go", *access).returncode == 0
    asked = verb("watch", "go")
    assert (asked.returncode, "choose one with --supplier" in asked.stderr) == (2, True)
    assert importer.supplier in asked.stderr
    assert other.supplier in asked.stderr


def test_a_book_of_one_wrong_line_needs_no_supplier_for_its_errors(
    tmp_path: Path, importer: Importer, verb: Verb
) -> None:
    (tmp_path / "book.ndjson").write_text("hello\n")
    pushed = verb("push", "book.ndjson")
    assert (pushed.returncode, "1 line in" in pushed.stdout) == (1, True)
    shown = verb("errors", "book")
    assert shown.returncode == 0
    assert "run book: 1 account with errors" in shown.stdout
    assert "note" not in shown.stdout
    unknown = verb("watch", "book")
    assert (unknown.returncode, "No line of the run book named a supplier" in unknown.stderr) == (2, True)


def test_watch_counts_validations_apart_from_accounts(tmp_path: Path, importer: Importer, verb: Verb) -> None:
    write_book(tmp_path, importer.supplier, 3)
    for _ in range(2):
        assert verb("push", "book.ndjson", "--run", "reh", "--mode", "validate").returncode == 0
    wait_for(lambda: "6 validations" in verb("watch", "reh").stdout, "both rehearsals are counted")
    assert verb("push", "book.ndjson", "--run", "reh", "--wait").returncode == 0
    assert "3 accounts · 6 validations · " in verb("watch", "reh").stdout


@pytest.mark.promise("push-makes-manifest")
@pytest.mark.parametrize(("share", "is_stopped"), [("1%", False), ("1", True)])
def test_too_many_errors_stop_a_push_which_then_writes_no_manifest(
    tmp_path: Path, importer: Importer, verb: Verb, share: str, *, is_stopped: bool
) -> None:
    """A share of few accounts is checked at the end only, after all lines were sent."""
    write_book(tmp_path, importer.supplier, spoilt=(1, 2, 3))
    ended = verb("push", "book.ndjson", "--mode", "validate", "--max-errors", share, "--manifest", "m.json")
    assert (ended.returncode, "oo many accounts were refused" in ended.stdout) == (1, True)
    assert (tmp_path / "m.json").exists() != is_stopped


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_push_that_ends_early_counts_all_accounts_that_it_has_sent(
    tmp_path: Path, importer: Importer, verb: Verb, *, is_damaged: bool
) -> None:
    write_book(tmp_path, importer.supplier, 300, spoilt=(1,))
    content = gzip.compress((tmp_path / "book.ndjson").read_bytes())
    (tmp_path / "book.ndjson").write_bytes(content[: len(content) * 9 // 10] if is_damaged else content)
    ended = verb("push", "book.ndjson", "--json", *(() if is_damaged else ("--max-errors", "0")))
    assert ended.returncode == 1, ended.stderr
    assert ("damaged or cut off" if is_damaged else "too many accounts were refused") in ended.stderr
    summary = json.loads(ended.stdout)["summary"]
    assert (summary["refused"], summary["accepted"] > 0, summary["lines"] < 300) == (1, True, True)
    wait_for(lambda: verb("watch", "book").returncode == 0, "the run is listed")
    assert f"· {summary['accepted']} accounts ·" in verb("watch", "book").stdout


def test_wrong_use_and_nothing_done_are_2(tmp_path: Path, access: Mapping[str, str], verb: Verb) -> None:
    (tmp_path / "empty.ndjson").write_text("\n")
    write_book(tmp_path, "X", 1)
    for words in (
        ["none.ndjson"],
        ["book.ndjson", "--key", "ilk_wrong"],
        ["book.ndjson", "--mode", "delete"],
        ["book.ndjson", "--run", "a b"],
        ["book.ndjson", "--rate", "0"],
        ["book.ndjson", "--max-errors", "few"],
        ["book.ndjson", "--max-errors", "200%"],
    ):
        assert verb("push", *words).returncode == 2
    empty = verb("push", "empty.ndjson")
    assert (empty.returncode, "empty.ndjson must have an account." in empty.stdout) == (2, True)
    missing = importbook("push", "book.ndjson", at=tmp_path)
    assert (missing.returncode, "IMPORTLEDGER_URL" in missing.stderr) == (2, True)


def test_a_failure_that_was_emptied_is_refused_here(tmp_path: Path, verb: Verb) -> None:
    (tmp_path / "go.failures.ndjson").write_text('{"line":7,"payload":" ","errors":[]}\n')
    emptied = verb("push", "go.failures.ndjson", "--json")
    summary = {"lines": 1, "accepted": 0, "replayed": 0, "refused": 1, "warned": 0}
    assert json.loads(emptied.stdout) == {"summary": summary}


def test_standard_input_and_broken_lines(tmp_path: Path, importer: Importer, verb: Verb) -> None:
    first, second = (entry.body for entry in book(importer.supplier, 2))
    pushed = verb("push", "-", "--run", "piped", "--json", stdin=first + b"\n\n{broken\n" + second)
    assert pushed.returncode == 1
    summary = {"lines": 4, "accepted": 2, "replayed": 0, "refused": 1, "warned": 0}
    assert json.loads(pushed.stdout) == {"summary": summary}
    failed = msgspec.json.decode((tmp_path / "piped.failures.ndjson").read_bytes())
    assert (failed["line"], failed["payload"]) == (3, "{broken")


@pytest.mark.parametrize(("width", "more"), [(100, {}), (30, {}), (100, {"NO_COLOR": "1"})])
def test_progress_is_drawn_in_a_terminal_and_fits(
    tmp_path: Path, importer: Importer, access: Mapping[str, str], width: int, more: dict[str, str]
) -> None:
    write_book(tmp_path, importer.supplier)
    terminal = Terminal("push", "book.ndjson", "--wait", at=tmp_path, access=access, width=width, more=more)
    assert terminal.end() == 0
    assert b"next:" in terminal.shown
    has_colors = any(re.search(rb"[34]\d", code) for code in _SGR.findall(terminal.shown))
    assert has_colors == (width == 100 and not more)
    drawn = re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", terminal.shown.split(b"run book")[0])
    assert all(len(line.decode()) <= width for line in re.split(rb"[\r\n]+", drawn))
    if width == 100:
        assert "━".encode() in drawn
        assert b"100 %" in drawn


@pytest.mark.promise("importbook-push-outlives-service")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_push_can_be_resumed(
    tmp_path: Path, importer: Importer, access: Mapping[str, str], verb: Verb, how: signal.Signals
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
    resumed = verb(*words, "--json", "--wait")
    assert resumed.returncode == 0, resumed.stderr
    summary = json.loads(resumed.stdout)["summary"]
    assert summary["replayed"] > 0
    assert summary["accepted"] + summary["replayed"] == ACCOUNTS
    assert processed(importer) == ACCOUNTS


def test_an_account_that_occurs_twice_with_other_content_is_sent_once(
    tmp_path: Path, importer: Importer, verb: Verb
) -> None:
    """Sent at the same time, either of them could win."""
    (account,) = [entry.body for entry in book(importer.supplier, 1)]
    other, same = account.replace(b'"billing_', b'"other":1,"billing_', 1), account
    wrapped = b'{"payload":%s}' % other
    (tmp_path / "book.ndjson").write_bytes(b"\n".join([account, other, same, other, wrapped]) + b"\n")
    pushed = verb("push", "book.ndjson", "--run", "go", "--json")
    assert pushed.returncode == 1
    summary = json.loads(pushed.stdout)["summary"]
    assert (summary["accepted"] + summary["replayed"], summary["refused"]) == (2, 3)
    refused = [json.loads(line) for line in (tmp_path / "go.failures.ndjson").read_text().splitlines()]
    assert [line["line"] for line in refused] == [2, 4, 5]
    assert "an earlier line has it with other content" in refused[0]["errors"][0]["detail"]


def test_a_full_disk_ends_a_push_with_its_summary_and_leaves_earlier_files(
    tmp_path: Path, importer: Importer, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_book(tmp_path, importer.supplier, 3, spoilt=(2,))
    assert verb("push", "book.ndjson", "--run", "go").returncode == 1
    earlier = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(failures, "private_file", lambda path: io.BufferedWriter(io.FileIO("/dev/full", "w")))
        pushed = verb("push", "book.ndjson", "--run", "go")
    assert (pushed.returncode, pushed.stderr) == (1, "")
    assert "replayed" in pushed.stdout
    assert "Fix these accounts" not in pushed.stdout
    assert pushed.stdout.endswith("No space left on device.\nnext:  importbook push book.ndjson --run go\n")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == earlier
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {".importbook"}


def test_profile_shows_statistics_and_refusals_and_warnings(tmp_path: Path, importer: Importer, verb: Verb) -> None:
    write_book(tmp_path, importer.supplier, spoilt=(3, 8), warned=BROKEN)
    lines = (tmp_path / "book.ndjson").read_bytes()
    (tmp_path / "book.ndjson").write_bytes(lines + lines.splitlines()[0] + b"\n[]\n")
    for shown in (verb("profile", "book.ndjson"), importbook("profile", "book.ndjson", at=tmp_path)):
        assert (shown.returncode, "line 62 is no account" in shown.stderr) == (1, True)
        (number,) = [line for line in shown.stdout.splitlines() if line.startswith("external_account_number ")]
        for text in ("filled 100.0 %", f"distinct {ACCOUNTS}", "DUPLICATES 1"):
            assert text in number
        assert steps(shown.stdout) == ["push book.ndjson --mode validate"]
        is_checked = "The service has not checked the accounts: The address" not in shown.stdout
        for text in ("2 accounts would be refused:", "2  invalid_phone_number  customers[].mobile"):
            assert (text in shown.stdout) == is_checked
        for text in ("5 accounts with warnings:", WARNED):
            assert (text in shown.stdout) == is_checked
    assert not is_checked
    assert processed(importer) == 0
    assert importer.client.all(importer.supplier).body == []


def test_a_printed_command_has_only_options_of_its_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for name, verb in verbs.importbook.commands.items():
        common.next_step(common.out(), name, access=common.Access("https://ledger.example", "ilk_x"))
        takes_address = any(option.name == "url" for option in verb.params)
        assert ("--url https://ledger.example" in capsys.readouterr().out) == takes_address, name
