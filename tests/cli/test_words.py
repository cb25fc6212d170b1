"""Verbs show texts and numbers in readable form, and refuse arguments that they could not store or read."""

import json
from pathlib import Path

import pytest

from eventstore.aggregates.import_process import CancelImport, stream_of
from eventstore.aggregates.supplier import ChangeSupplierStatus, CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.auxiliary.typed_reasons import MAX_REASON, TypedReason, new_reason_id, write_reason
from tests.support.databases import Admin
from tests.support.problems import failed
from tests.support.running import wait_for
from tests.support.sealed_log import Log, find
from tests.support.verbs import Verbs
from workers.operations import MAX_NAME


def test_a_status_has_a_line_for_each_value_also_of_its_error(cli: Verbs, ledger: Ledger) -> None:
    ledger.execute(supplier_stream("S"), CreateSupplier(), at=now(), by="t")
    failed(ledger, "1", "attempts_exhausted")
    lines = dict(line.split(maxsplit=1) for line in cli("status", "S", "1").splitlines())
    assert lines["status"] == "ERRORED"
    assert lines["latest_error.code"] == "attempts_exhausted"
    assert {"latest_error.detail", "latest_error.domain"} <= lines.keys()
    assert not any(value.startswith("{") for value in lines.values())


def test_reasons_of_the_console_are_shown_as_typed(cli: Verbs, ledger: Ledger, admin: Admin) -> None:
    ids = [new_reason_id() for _ in range(3)]
    for reason, content in ((ids[0], "the wrong book"), (ids[2], "sent twice")):
        write_reason(admin, TypedReason(reason=reason, user_id="u", subject="s", at=now(), content=content))
    ledger.execute(supplier_stream("S"), CreateSupplier(), at=now(), by="t")
    failed(ledger, "1", "attempts_exhausted")
    changes = (
        ChangeSupplierStatus(status="paused", reason=ids[0]),
        ChangeSupplierStatus(status="ongoing", reason=ids[1]),
        ChangeSupplierStatus(status="complete", reason=ids[0]),
    )
    for command in changes:
        reason = command.reason
        ledger.execute(supplier_stream("S"), command, at=now(), by="t")
        shown = [cli("supplier", "show", "S"), cli("supplier", "list"), cli("supplier", "list", "--json")]
        assert not any(reason in text for text in shown)
        assert all(("the wrong book" in text) == (reason == ids[0]) for text in shown)
    cli("retry", "S", "1", "--reason", "once more")
    ledger.execute(stream_of("S", "1"), CancelImport(reason=ids[2]), at=now(), by="t")
    for history in (cli("history", "S", "1"), cli("history", "S", "1", "--json")):
        assert ids[2] not in history
        assert "sent twice" in history
        assert "once more" in history


def test_reasons_and_names_are_as_short_as_in_the_console(cli: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projections.retention.reverting.WAIT_S", 0.0)  # no projector runs
    cli("supplier", "create", "S")
    for typed, most in (
        ("supplier status S paused --reason", MAX_REASON),
        ("key revoke a1 --reason", MAX_REASON),
        ("cancel S --all --reason", MAX_REASON),
        ("retry S --all --reason", MAX_REASON),
        ("erase S 1 --yes --reason", MAX_REASON),
        ("revert S 1 --yes --reason", MAX_REASON),
        ("release S --yes --reason", MAX_REASON),
        ("sample S r --output none --show --reason", MAX_REASON),
        ("user create a@example.org --organisation O --role support --name", MAX_NAME),
    ):
        words = typed.split()
        assert f"A text must have at most {most} characters." in cli(*words, "x" * (most + 1), code=1), typed
        assert "at most" not in cli(*words, "x" * most, code=None), typed


def test_documents_that_are_not_checked_need_no_place(cli: Verbs, tmp_path: Path) -> None:
    cli("supplier", "create", "S")
    root = f"documents-root={(tmp_path / 'none').as_uri()}"
    assert "cannot be reached" not in cli("supplier", "set", "S", root)
    assert "cannot be reached" in cli("supplier", "set", "S", "documents-check=warn")
    assert "cannot be reached" not in cli("supplier", "set", "S", "documents-check=off")


def test_few_rows_are_estimated_before_the_next_analyze(cli: Verbs, admin: Admin) -> None:
    admin.execute("ANALYZE import_supplier")
    for code in ("A", "B", "C"):
        cli("supplier", "create", code)

    def estimated() -> list[int]:
        lines = map(json.loads, cli("projections", "--json").splitlines())
        return [line["rows"] for line in lines if line["name"] == "import_supplier"]

    wait_for(lambda: estimated() == [3], "the rows are estimated")


def test_a_file_that_is_no_export_is_named(cli: Verbs, tmp_path: Path) -> None:
    file = tmp_path / "book.ndjson"
    for content in (b"", b'{"a": 1}\n', b"\x00\x01\xff" * 50, b"(\xb5/\xfd broken"):
        file.write_bytes(content)
        assert f"{file} must be a file that `importledger export` has written." in cli("replay", str(file), code=1)


def test_files_of_another_kind_accuse_nobody(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a book nor a checkpoint is a certificate, and no checkpoint is the log altered."""
    find(log, monkeypatch)
    cli = Verbs({})
    book, note = log.folder / "book.ndjson", log.folder / "monday.note"
    book.write_text(json.dumps({"external_account_number": "1"}) + "\n")
    note.write_text(log.seal().note)
    for words, kind in (
        ((str(book),), "certificate of a run"),
        ((str(note),), "certificate of a run"),
        (("--against", str(book)), "checkpoint that `seal` has printed"),
    ):
        refused = cli("verify", *words, code=1)
        assert (f"must be a {kind}" in refused, "is signed" in refused) == (True, False)
    cli("verify", "--against", str(note))
