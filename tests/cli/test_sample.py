"""The verb `sample`: accounts that an auditor checks, drawn by a rule that anybody can repeat."""

import copy
import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import openpyxl
import psycopg
import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.run import CountRun, ReplayAccounts
from eventstore.aggregates.run import stream_of as run_stream
from eventstore.aggregates.supplier import CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from eventstore.proof import sample_verifier
from eventstore.proof.sample_verifier import draw
from eventstore.proof.statement import sign_statement
from eventstore.proof.verifier import read_checkpoint
from projections import INLINE
from tests.support.auditors import audited
from tests.support.folders import temporary_folder
from tests.support.following import follow
from tests.support.make import an_account
from tests.support.running import environment_on, wait_for
from tests.support.sealed_log import KEY, OTHER_KEY
from tests.support.staging import SUPPLIER, stage
from tests.support.verbs import run_here, run_verb
from workers.actors.process_imports import ImportProcessor

ACCOUNTS = 12
NAME = "Feuerbach-Sample"
FORMULA = '=HYPERLINK("http://example.org")'


class Sampling:
    """A service with the run `r`, its verbs, and a test's own folder."""

    def __init__(self, database: PostgresUrls, ledger: Ledger, folder: Path) -> None:
        self.ledger, self.folder, self.database = ledger, folder, database
        self.environment = environment_on(database, folder)
        self.accounts = [an_account(SUPPLIER, number) for number in range(1, ACCOUNTS + 1)]
        for number, account in enumerate(self.accounts):
            account["customers"][0]["family_name"] = NAME
            account["notes"][0]["body"] = FORMULA
            balance = ("0.00", "55.10", "-70000.00")[number % 3]
            account["transfer_balance"] = account["ledgers"][0]["ledger_balance"] = balance

    def fill(self) -> None:
        for supplier in (SUPPLIER, "OTHER"):
            self.ledger.execute(supplier_stream(supplier), CreateSupplier(), at=now(), by="t")
        streams = [stage(self.ledger, account, run="r") for account in self.accounts]
        ImportProcessor(self.ledger, worker=lambda: 7).process(streams[:-1])
        follow(self.ledger)

    def verb(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return run_verb(*words, environment=self.environment)

    def draw(self, *words: str, into: str = "sample", run: str = "r") -> Path:
        follow(self.ledger)
        ended = self.verb("sample", SUPPLIER, run, *words, "-o", str(self.folder / into))
        assert ended.returncode == 0, ended.stderr
        return self.folder / into

    def audited(self, sample: Path, *words: str) -> "subprocess.CompletedProcess[str]":
        """The verifier's answer, in this process."""
        command = ["importledger-verify", str(sample / "sample.json"), "--key", KEY.verifier, *words]
        return run_here(command, sample_verifier.run, environment={}, folder=self.folder)

    def refused(self, *words: str) -> str:
        """Return the sentence that refuses to draw, and check that no folder is there."""
        before = sorted(self.folder.iterdir())
        ended = self.verb("sample", *words, "-o", str(self.folder / "refused"))
        assert ended.returncode == 1
        assert sorted(self.folder.iterdir()) == before
        return ended.stderr


@pytest.fixture(scope="module")
def filled(shared_database: PostgresUrls) -> Iterator[Sampling]:
    """With the run `r`, which no test changes."""
    with temporary_folder() as folder, closing(Ledger(shared_database.service, views=INLINE)) as ledger:
        sampling = Sampling(shared_database, ledger, folder)
        sampling.fill()
        yield sampling


@pytest.fixture
def sampling(filled: Sampling, folder: Path) -> Sampling:
    own = copy.copy(filled)
    own.folder = folder
    return own


def rows_of(sample: Path) -> list[dict[str, str]]:
    """Return the rows of the table by heading; no cell of it may be anything but text."""
    sheet = openpyxl.load_workbook(sample / "accounts.xlsx").worksheets[0]
    headings, *rows = [[str(cell.value or "") for cell in row] for row in sheet.iter_rows()]
    assert {cell.data_type for row in sheet.iter_rows() for cell in row if cell.value is not None} <= {"s", "inlineStr"}
    return [dict(zip(headings, row, strict=True)) for row in rows]


def statement_of(sample: Path) -> dict[str, Any]:
    statement: dict[str, Any] = json.loads((sample / "sample.json").read_text())
    return statement


@pytest.mark.promise("sample-draw-by-rule", "files-backup-proof-export")
def test_a_sample_is_drawn_written_and_accepted_by_the_verifier(sampling: Sampling) -> None:
    sample = sampling.draw("--size", "5", "--seed", "lottery 4 8 15")
    statement = statement_of(sample)
    assert (statement["population"], len(statement["accounts"]), statement["seed"]) == (ACCOUNTS, 5, "lottery 4 8 15")
    proofs = [f"00{number}.zip" for number in range(1, 6)]
    assert sorted(file.name for file in (sample / "proofs").iterdir()) == proofs
    files = [file for file in sample.rglob("*") if file.is_file()]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    checked = audited(sampling.folder, str(sample / "sample.json"), "--key", KEY.verifier)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert f"draw: 5 of {ACCOUNTS} in run r of {SUPPLIER}, seed 'lottery 4 8 15': the same" in checked.stdout
    assert checked.stdout.count(": proved") == 5
    rows = rows_of(sample)
    assert {row["Account"] for row in rows} == {account["external_account_number"] for account in statement["accounts"]}
    verified = sampling.verb("verify", str(sample / "sample.json"))
    assert verified.returncode == 0, verified.stderr
    assert f"sample {sample / 'sample.json'} is signed with the log's key" in verified.stdout


@pytest.mark.promise("sample-side-by-side", "sample-masks-persons")
def test_the_table_has_source_beside_platform_and_masks_persons(sampling: Sampling) -> None:
    account = sampling.accounts[0]["external_account_number"]
    change = "UPDATE platform.service_account SET transfer_balance = %s WHERE external_account_number = %s"
    with psycopg.connect(sampling.database.admin, autocommit=True) as admin:
        admin.execute(change, (7, account))
        sample = sampling.draw("--language", "de")
        admin.execute(change, (0, account))
    rows = rows_of(sample)
    assert {row["Konto"] for row in rows} == {account["external_account_number"] for account in sampling.accounts}
    results = {row["Ergebnis"] for row in rows if row["Status"] == "PROCESSED"}
    assert results == {"gleich", "weicht ab"}
    [differing] = [row for row in rows if row["Ergebnis"] == "weicht ab"]
    assert (differing["Konto"], differing["Feld"]) == (account, "transfer_balance")
    assert (differing["Altsystem"], differing["Plattform"]) == ("0", "7")
    waiting = {row["Ergebnis"] for row in rows if row["Status"] == "PENDING"}
    assert waiting == {"das Konto ist nicht auf der Plattform"}
    names = [row for row in rows if row["Feld"] == "customers.family_name"]
    assert {row["Altsystem"] for row in names} == {"F•••"}
    assert not any(NAME in value for row in rows for value in row.values())
    assert not any(NAME.encode() in content for content in contents_of(sample))


def contents_of(sample: Path) -> list[bytes]:
    """Return the files of a sample, and those in its proofs."""
    contents = [file.read_bytes() for file in sample.rglob("*") if file.is_file()]
    for file in (sample / "proofs").iterdir():
        with zipfile.ZipFile(file) as proof:
            contents += [proof.read(name) for name in proof.namelist()]
    return contents


@pytest.mark.promise("sample-side-by-side")
def test_every_value_of_an_account_is_in_the_table(sampling: Sampling) -> None:
    """A field of the sample account that the table leaves out would be no part of the comparison."""
    rows = rows_of(sampling.draw("--show", "--reason", "audit 2026"))
    fields = {row["Field"] for row in rows if row["Account"] == sampling.accounts[0]["external_account_number"]}
    assert FORMULA in {row["Source data"] for row in rows}, "as text: rows_of() finds no other cell"
    paths = paths_of(sampling.accounts[0]) - {"import_supplier"}
    assert len(paths) > 100
    assert {
        path for path in paths if not any(path == field or path.startswith(f"{field}.") for field in fields)
    } == set()


def paths_of(value: Any, path: str = "") -> set[str]:
    """Return the paths of all filled scalars, without indexes."""
    match value:
        case dict():
            return {p for name, inner in value.items() for p in paths_of(inner, f"{path}.{name}" if path else name)}
        case [dict(), *_]:
            return {p for item in value for p in paths_of(item, path)}
    return set() if value is None or value in ("", [], {}) or value is False else {path}


@pytest.mark.promise("sample-masks-persons")
def test_personal_data_is_shown_with_a_reason_that_is_recorded(sampling: Sampling) -> None:
    sample = sampling.draw("--size", "3", "--show", "--reason", "audit 2026-118")
    assert NAME in {row["Source data"] for row in rows_of(sample)}
    assert sum(NAME.encode() in content for content in contents_of(sample)) == 3, "the proofs have the payloads"
    with psycopg.connect(sampling.database.admin) as connection:
        query = (
            "SELECT d.external_account_number FROM disclosure AS d JOIN typed_reasons AS r USING (reason)"
            " WHERE r.content = 'audit 2026-118'"
        )
        shown = {external for (external,) in connection.execute(query)}
    assert shown == {account["external_account_number"] for account in statement_of(sample)["accounts"]}
    checked = sampling.audited(sample)
    assert (checked.returncode, checked.stderr) == (0, "")
    for words in (("--show",), ("--reason", "audit 2026")):
        assert "--show must have a --reason" in sampling.refused(SUPPLIER, "r", *words)


@pytest.mark.promise("sample-draw-by-rule")
def test_the_checkpoint_that_the_auditor_has_decides_whatever_follows(sampling: Sampling) -> None:
    for number in range(71, 77):
        stage(sampling.ledger, an_account(SUPPLIER, number), run="growing")
    (sampling.folder / "monday.note").write_text(sampling.verb("seal").stdout)
    words = ("--size", "4", "--seed", "s", "--against", str(sampling.folder / "monday.note"))
    first = statement_of(sampling.draw(*words, run="growing"))["accounts"]
    stage(sampling.ledger, an_account(SUPPLIER, 77), run="growing")
    again = sampling.draw(*words, into="again", run="growing")
    assert statement_of(again)["accounts"] == first
    assert statement_of(again)["population"] == 6
    checked = sampling.audited(again, "--against", "monday.note")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "(kept by you): the same" in checked.stdout
    later = sampling.draw("--size", "4", "--seed", "s", into="later", run="growing")
    assert statement_of(later)["population"] == 7
    refused = sampling.audited(later, "--against", "monday.note")
    assert (refused.returncode, "the sample says nothing about" in refused.stderr) == (1, True)
    other = sampling.folder / "other.note"
    for note, sentence in (
        (OTHER_KEY.sign(5, bytes(32), now()), "not signed by the log's key"),
        (KEY.sign(5, bytes(32), now()), "must be a checkpoint that the log continues"),
        (KEY.sign(5_000, bytes(32), now()), "must be a checkpoint that the log continues"),
        (KEY.sign(0, bytes(32), now()), "must be a checkpoint that the log continues"),
    ):
        other.write_text(note)
        assert sentence in sampling.refused(SUPPLIER, "growing", *words[:-1], str(other))


@pytest.mark.parametrize(("stratify", "strata"), [("status", {"PROCESSED": 11, "PENDING": 1}), ("balance", None)])
def test_each_stratum_has_its_share(sampling: Sampling, stratify: str, strata: dict[str, int] | None) -> None:
    strata = strata or {"0": 4, "0-100": 4, "10000-": 3, "-": 1}
    sample = sampling.draw("--size", "6", "--stratify", stratify)
    drawn = [account["stratum"] for account in statement_of(sample)["accounts"]]
    assert (len(drawn), set(drawn)) == (6, set(strata))
    checked = sampling.audited(sample)
    assert (checked.returncode, checked.stderr) == (0, "")
    for stratum, number in strata.items():
        assert f"stratum {stratum}: {drawn.count(stratum)} of {number}" in checked.stdout
    refusal = sampling.refused(SUPPLIER, "r", "--size", str(len(strata) - 1), "--stratify", stratify)
    assert f"--size must be at least {len(strata)}" in refusal


def test_a_form_has_a_line_for_each_account_in_both_languages(sampling: Sampling) -> None:
    for language, words in {
        "en": ("Sample of accounts", "Signature"),
        "de": ("Stichprobe von Konten", "Unterschrift"),
    }.items():
        sample = sampling.draw("--size", "3", "--language", language, into=language)
        form = (sample / "sample.pdf").read_bytes().decode("cp1252")
        assert form.startswith("%PDF-")
        for text in (*words, *(account["external_account_number"] for account in statement_of(sample)["accounts"])):
            assert f"({text})" in form
        assert form.count(" re S") == 3 * 3
        assert statement_of(sample)["checkpoint"].split("\n")[1] in form


def rewritten(sample: Path, change: Callable[[dict[str, Any]], None], *, is_signed: bool = False) -> None:
    """Change sample.json, and sign it again if the operator does so."""
    statement = statement_of(sample)
    change(statement)
    if is_signed:
        signing = ("signed_at", "checkpoint", "verifier_key", "signature")
        body = {name: value for name, value in statement.items() if name not in signing}
        statement = sign_statement(body, KEY, statement["checkpoint"], at=now())
    (sample / "sample.json").write_text(json.dumps(statement))


def other_seed(statement: dict[str, Any]) -> None:
    statement["seed"] = "another"


def swapped_account(statement: dict[str, Any]) -> None:
    accounts = statement["accounts"]
    accounts[0], accounts[1] = accounts[1], accounts[0]


def other_number(statement: dict[str, Any]) -> None:
    statement["accounts"][0]["external_account_number"] = "NO-OTHER"


def fewer_accounts(statement: dict[str, Any]) -> None:
    statement["population"] -= 1


@pytest.mark.promise("sample-draw-by-rule")
def test_an_altered_draw_is_refused_even_if_the_operator_signs_it(sampling: Sampling) -> None:
    sample = sampling.draw("--size", "5", "--seed", "s")
    drawn = (sample / "sample.json").read_text()
    for change, is_signed, sentence in (
        (other_seed, False, "the signature of the certificate is wrong"),
        (other_seed, True, "must be those of the draw"),
        (swapped_account, True, "must be those of the draw"),
        (other_number, True, "it must prove that import/NORDWIND/NO-OTHER was staged at position"),
        (fewer_accounts, True, "must have as many lines as the sample says"),
    ):
        (sample / "sample.json").write_text(drawn)
        rewritten(sample, change, is_signed=is_signed)
        checked = sampling.audited(sample)
        assert (checked.returncode, sentence in checked.stderr) == (1, True), (change, checked.stderr)


@pytest.mark.promise("sample-draw-by-rule")
def test_an_altered_or_missing_file_is_named_and_a_proof_of_another_account_proves_nothing(sampling: Sampling) -> None:
    sample = sampling.draw("--size", "3")

    def refuse(sentence: str) -> str:
        checked = sampling.audited(sample)
        assert (checked.returncode, sentence in checked.stderr) == (1, True), checked.stderr
        return checked.stdout

    for name in ("accounts.xlsx", "population.csv", "proofs/002.zip"):
        is_proof, content = "/" in name, (sample / name).read_bytes()
        (sample / name).write_bytes(content[:-30])
        refuse(f"{name}: it must be a whole zip file" if is_proof else f"{name} is not the file that was signed")
        (sample / name).unlink()
        refuse(f"{name}: it cannot be read: No such file" if is_proof else f"{name} cannot be read: No such file")
        os.mkfifo(sample / name)  # it never ends
        if not is_proof:
            refuse(f"{name} must be a file of at most")
        (sample / name).unlink()
        (sample / name).write_bytes(content)
    shutil.copy(sample / "proofs" / "001.zip", sample / "proofs" / "002.zip")
    assert refuse("proofs/002.zip: it must prove that").count(": proved") == 2


def test_an_account_that_another_run_staged_is_named_with_that_run(sampling: Sampling) -> None:
    external = sampling.accounts[3]["external_account_number"]
    command = ReplayAccounts(mode="create", accounts=(external,))
    sampling.ledger.execute(run_stream(SUPPLIER, "second", "1"), command, at=now(), by="t")
    follow(sampling.ledger)
    sample = sampling.draw(run="second")
    assert [account["external_account_number"] for account in statement_of(sample)["accounts"]] == [external]
    assert " by run r: proved" in sampling.audited(sample).stdout
    assert sampling.verb("verify", str(sample / "sample.json")).returncode == 0


@pytest.mark.promise("sample-population-complete")
def test_an_account_that_was_left_out_is_found_in_the_log(sampling: Sampling) -> None:
    """The operator can sign a sample of fewer accounts. The log has them all, and the certificate their number."""
    sample = sampling.draw("--size", "3", "--seed", "s")
    lines = (sample / "population.csv").read_text().splitlines(keepends=True)
    (sample / "population.csv").write_text("".join(lines[1:]))
    positions = [int(line.split(";")[0]) for line in lines[1:]]
    root = read_checkpoint(statement_of(sample)["checkpoint"], KEY.verifier).root

    def draw_again(statement: dict[str, Any]) -> None:
        numbers = dict(zip(map(int, (line.split(";")[0] for line in lines)), externals, strict=True))
        statement["population"] = ACCOUNTS - 1
        statement["files"]["population.csv"] = hashlib.sha256((sample / "population.csv").read_bytes()).hexdigest()
        statement["accounts"] = [
            {"position": position, "stratum": stratum, "external_account_number": numbers[position]}
            for position, stratum in draw(root, "s", {"": positions}, 3)
        ]

    externals = [account["external_account_number"] for account in sampling.accounts]
    rewritten(sample, draw_again, is_signed=True)
    verified = sampling.verb("verify", str(sample / "sample.json"))
    assert verified.returncode == 1
    sentence = "1 account of the run was left out, the first at position " + lines[0].split(";")[0]
    assert f"INCOMPLETE  {sample / 'sample.json'}: {sentence}" in verified.stderr


def test_a_sample_may_be_the_whole_run_and_never_of_another(sampling: Sampling) -> None:
    sample = sampling.draw("--size", "60")
    numbers = {account["external_account_number"] for account in statement_of(sample)["accounts"]}
    assert numbers == {account["external_account_number"] for account in sampling.accounts}
    assert sampling.audited(sample).returncode == 0
    assert "There is no run s of NORDWIND" in sampling.refused(SUPPLIER, "s")
    assert "There is no run r of OTHER" in sampling.refused("OTHER", "r")
    assert "There is no import supplier NOBODY" in sampling.refused("NOBODY", "r")
    sampling.ledger.execute(
        run_stream(SUPPLIER, "empty", "1"), CountRun(since=now(), mode="validate", valid=3), at=now(), by="t"
    )
    follow(sampling.ledger)
    assert "The run empty must have an account" in sampling.refused(SUPPLIER, "empty")
    ended = sampling.verb("sample", SUPPLIER, "r", "-o", str(sample))
    assert (ended.returncode, "is a directory" in ended.stderr) == (1, True)


@pytest.mark.promise("sample-whole-or-none")
def test_a_verb_that_is_killed_or_fails_leaves_no_half_folder(sampling: Sampling) -> None:
    output = sampling.folder / "sample"
    with psycopg.connect(sampling.database.admin) as holder:
        holder.execute("LOCK TABLE platform.service_account IN ACCESS EXCLUSIVE MODE")
        command = [sys.executable, "-m", "cli.main", "sample", SUPPLIER, "r", "-o", str(output)]
        with subprocess.Popen(command, env=os.environ | sampling.environment) as running:
            wait_for(lambda: len([*sampling.folder.glob(".sample.*/proofs/*.zip")]) == ACCOUNTS, "proofs are written")
            running.kill()
    assert not output.exists()
    shutil.rmtree(next(sampling.folder.glob(".sample.*")))
    with psycopg.connect(sampling.database.admin, autocommit=True) as admin:
        admin.execute("ALTER TABLE platform.reading RENAME TO gone")
        try:
            assert "does not exist" in sampling.refused(SUPPLIER, "r")
        finally:
            admin.execute("ALTER TABLE platform.gone RENAME TO reading")
    assert [*sampling.folder.glob(".sample.*")] == []
