"""References of accounts, checked while imports are processed: documents, and participants of grid operators."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventstore.aggregates.import_process import ImportErrored, ImportPostponed, ImportProcessed
from eventstore.aggregates.organisation import CreateKey, Role
from eventstore.aggregates.participant import ImportParticipant
from eventstore.aggregates.participant import stream_of as participant_stream
from eventstore.aggregates.supplier import ConfigureSupplier, CreateSupplier
from eventstore.aggregates.supplier import stream_of as supplier_stream
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.views.import_supplier import KnownSupplier
from schemas.sentence import Sentence
from schemas.submission import read_submission
from tests.support.make import an_account, changed, encoded
from tests.support.staging import SUPPLIER, stage
from workers.actors import references
from workers.actors.documents import DocumentsUnavailable, is_allowed, missing_documents
from workers.actors.process_imports import ImportProcessor
from workers.actors.references import AccountReferences, References

OPERATORS = ("9900000000409", "9900000000201", "9900000000300")


@pytest.fixture
def processor(ledger: Ledger) -> ImportProcessor:
    ledger.execute(supplier_stream(SUPPLIER), CreateSupplier(), at=now(), by="t")
    return ImportProcessor(ledger, worker=lambda: 7)


def configure(ledger: Ledger, **settings: Any) -> None:
    ledger.execute(supplier_stream(SUPPLIER), ConfigureSupplier(**settings), at=now(), by="t")


def processed(ledger: Ledger, processor: ImportProcessor, number: int = 1) -> Any:
    """Process an import, and return its last event."""
    stream = stage(ledger, an_account(SUPPLIER, number))
    processor.process([stream])
    return ledger.history(stream)[-1].event


def import_participants(ledger: Ledger, organisation: str = "") -> None:
    for code in OPERATORS:
        stream = participant_stream(organisation, int(code))
        ledger.execute(stream, ImportParticipant(payload_sha256="d"), at=now(), by="t")


@pytest.mark.promise("market-participants-price-sheets")
@pytest.mark.parametrize(
    ("organisation", "keys", "is_found"),
    [
        (None, [], False),
        ("", [], True),
        ("Mine", [("Mine", SUPPLIER, "importer")], True),
        ("Mine", [("Mine", SUPPLIER, "operator")], True),
        ("Other", [("Other", "OTHERS", "importer"), ("Other", SUPPLIER, "auditor")], False),
    ],
)
def test_an_account_refers_to_participants_of_its_organisation_and_of_the_operator(
    ledger: Ledger,
    owner: Ledger,
    processor: ImportProcessor,
    organisation: str | None,
    keys: list[tuple[str, str, Role]],
    is_found: bool,
) -> None:
    """A reference to any other participant is a warning."""
    if organisation is not None:
        import_participants(ledger, organisation)
    for name, supplier, role in keys:
        key = CreateKey(key_id=f"{name}{role}", secret_sha256="d", role=role, suppliers=(supplier,))
        owner.execute(f"organisation/{name}", key, at=now(), by="t")
    event = processed(ledger, processor)
    assert isinstance(event, ImportProcessed)
    path = "supply_addresses.0.supply_points.0.meter_operators.0.code"
    assert (f"market_participant_not_found@{path}" in event.warnings) is not is_found
    assert {warning.split("@")[0] for warning in event.warnings} <= {"market_participant_not_found"}


def test_an_operator_without_a_participant_ends_the_import_of_a_strict_supplier(
    ledger: Ledger, processor: ImportProcessor
) -> None:
    configure(ledger, strictness="strict")
    event = processed(ledger, processor)
    assert isinstance(event, ImportErrored)
    assert all(problem.startswith("market_participant_not_found@") for problem in event.problems)


@pytest.mark.promise("document-paths-below-supplier")
def test_a_missing_document_is_named(ledger: Ledger, processor: ImportProcessor, tmp_path: Path) -> None:
    import_participants(ledger)
    named = ("path_does_not_exist_in_file_store@statements.0.statement_path",)
    cases: list[tuple[Any, type[Any]]] = [
        ("warn", ImportProcessed),
        ("require", ImportErrored),
        ("off", ImportProcessed),
    ]
    for number, (check, ending) in enumerate(cases, 1):
        configure(ledger, documents_root=tmp_path.as_uri(), documents_check=check)
        event = processed(ledger, processor, number)
        assert isinstance(event, ending), check
        missing = event.problems if isinstance(event, ImportErrored) else event.warnings
        assert missing == (() if check == "off" else named)
    for statement in an_account(SUPPLIER, 4)["statements"]:
        document = tmp_path / statement["statement_path"]
        document.parent.mkdir(parents=True, exist_ok=True)
        document.write_bytes(b"%PDF")
    configure(ledger, documents_check="require")
    event = processed(ledger, processor, 4)
    assert isinstance(event, ImportProcessed)
    assert event.warnings == ()


def test_an_account_exists_since_its_documents_were_looked_for(
    ledger: Ledger, processor: ImportProcessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The creation time is taken after the document store has answered, which may take long."""
    configure(ledger, documents_root=tmp_path.as_uri(), documents_check="warn")
    looked_at = []

    def look(root: str, paths: list[str], **limits: float) -> set[str]:
        looked_at.append(now())
        return missing_documents(root, paths, **limits)

    monkeypatch.setattr(references, "missing_documents", look)
    stream = stage(ledger, an_account(SUPPLIER))
    processor.process([stream])
    processed = ledger.history(stream)[-1]
    assert isinstance(processed.event, ImportProcessed)
    assert processed.event.created_at is not None
    assert looked_at[0] < processed.event.created_at <= processed.recorded_at
    with ledger.connection() as connection:
        [row] = connection.execute("SELECT created_at FROM platform.service_account").fetchall()
        [status] = connection.execute("SELECT account_created_at FROM import_status").fetchall()
    assert row["created_at"] == status["account_created_at"] == processed.event.created_at


@pytest.mark.promise("documents-fetched-only-places")
def test_documents_are_not_fetched_outside_the_places_of_the_organisation_that_has_set_the_root(
    ledger: Ledger, processor: ImportProcessor, tmp_path: Path
) -> None:
    """Also if a place was removed after the root was set."""
    import_participants(ledger)
    root = tmp_path.as_uri()
    configure(ledger, documents_root=root, documents_check="require", documents_organisation="Mine")
    foreign: list[dict[str, list[str]]] = [{}, {"Mine": [f"{root}/other"]}, {"Other": [root]}]
    for number, allowed in enumerate(foreign, 1):
        event = processed(ledger, ImportProcessor(ledger, worker=lambda: 7, allowed_urls=allowed), number)
        assert isinstance(event, ImportPostponed), allowed
        assert "document" in event.code
    allowed = {"Mine": [f"{root}/other", root]}
    event = processed(ledger, ImportProcessor(ledger, worker=lambda: 7, allowed_urls=allowed), 4)
    assert isinstance(event, ImportErrored)
    assert event.problems


def test_a_link_leads_out_of_no_place(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / "link").symlink_to(tmp_path / "other")
    place = (tmp_path / "mine").as_uri()
    assert is_allowed(f"{place}/sub", [place])
    assert not is_allowed(f"{place}/link", [place])


def test_the_document_stores_of_a_message_share_its_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a store that hangs would cost the imports of all suppliers their lease."""
    clock, left = [0.0], list[float]()

    def hang(root: str, paths: list[str], *, longest_s: float) -> set[str]:
        left.append(longest_s)
        clock[0] += 20.0
        raise DocumentsUnavailable(Sentence("no answer", "keine Antwort"))

    monkeypatch.setattr(references, "missing_documents", hang)
    monkeypatch.setattr("workers.actors.references.time.monotonic", lambda: clock[0])
    accounts = [AccountReferences(code, (), (), ("a.pdf",), True) for code in "ST"]
    settings = {code: KnownSupplier(code=code, documents_check="require") for code in "ST"}
    assert references._missing(accounts, settings, {}) == {"S": None, "T": None}
    assert left == [30.0, 10.0]


def test_an_object_store_that_does_not_answer_postpones_the_import(ledger: Ledger, processor: ImportProcessor) -> None:
    configure(ledger, documents_root="az://nowhere/x", documents_check="require")
    event = processed(ledger, processor)
    assert isinstance(event, ImportPostponed)
    assert event.code == "document_store_unavailable"
    configure(ledger, documents_check="warn")


@pytest.mark.promise("one-judge-api-worker")
def test_what_the_market_warns_of_ends_the_import_of_a_strict_supplier(
    ledger: Ledger, processor: ImportProcessor
) -> None:
    account = changed(an_account(SUPPLIER), "1234", "billing_postcode")
    import_participants(ledger)
    first = stage(ledger, account)
    configure(ledger, strictness="strict")
    processor.process([first])
    event = ledger.history(first)[-1].event
    assert isinstance(event, ImportErrored)
    assert event.problems == ("invalid_postcode@billing_postcode",)


def test_participants_that_left_the_cache_are_looked_up_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MAX_KNOWN", 1)
    import_participants(ledger)
    checker = References(ledger)
    suppliers = {SUPPLIER: KnownSupplier(code=SUPPLIER)}
    whole = references.references_of(
        read_submission(encoded(an_account(SUPPLIER))).account, now().date(), is_dry_run=False
    )
    for operators in (whole.operators[:2], whole.operators):
        [findings] = checker.findings([msgspec.structs.replace(whole, operators=operators)], suppliers)
        assert findings.warnings == ()
