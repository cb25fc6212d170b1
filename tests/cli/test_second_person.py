"""A second person on the command line: verbs propose, another login approves or rejects, the relay carries out."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cli import proposals as list_of_proposals
from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import FailImport, ImportReverted, SubjectErased
from eventstore.aggregates.owner_task import SECOND_PERSON
from eventstore.aggregates.supplier import Supplier
from eventstore.log.ledger import Ledger
from projections import FOLLOWING
from tests.support.console import stage_account
from tests.support.make import an_account, start
from tests.support.owner_tasks import Tasks
from tests.support.running import environment_on
from tests.support.staging import SUPPLIER, stage
from tests.support.threads import running
from tests.support.verbs import Verbs
from workers.actors.process_imports import ImportProcessor
from workers.followers.projector import Projector
from workers.proposals import CHANGED, DECIDED, MANY

EXTERNALS = [str(an_account(SUPPLIER, number)["external_account_number"]) for number in (1, 2)]


@pytest.fixture
def cli(database: PostgresUrls, folder: Path) -> Verbs:
    """The verbs of the login anna, where every action needs a second person."""
    return Verbs(environment_on(database, folder, IMPORTLEDGER_FOUR_EYES=",".join(SECOND_PERSON), LOGNAME="anna"))


@pytest.fixture
def tasks(ledger: Ledger, database: PostgresUrls) -> Iterator[Tasks]:
    """The relay, and two processed accounts of the run monday."""
    streams = [stage(ledger, an_account(SUPPLIER, number), run="monday") for number in (1, 2)]
    ImportProcessor(ledger, worker=lambda: 7).process(streams)
    with running(Projector(ledger, FOLLOWING).start):  # the lists of runs follow the log
        yield Tasks(ledger, database, [*SECOND_PERSON.values()])


def is_reverted(ledger: Ledger, external: str) -> bool:
    return isinstance(ledger.history(f"import/{SUPPLIER}/{external}")[-1].event, ImportReverted)


@pytest.mark.promise("second-person", "second-person-preview")
def test_a_run_is_proposed_by_one_login_and_approved_by_another(cli: Verbs, ledger: Ledger, tasks: Tasks) -> None:
    cli("supplier", "create", SUPPLIER)
    revert = ("revert", SUPPLIER, "--run", "monday")
    assert "2 revertible" in cli(*revert)
    proposed = json.loads(cli(*revert, "--yes", "--reason", "wrong mapping", "--json"))
    task_id = proposed["proposal"]
    assert (proposed["action"], proposed["preview"]) == ("revert", {"revertible": 2, "failed": 0})
    listed = cli("proposals")
    for text in (task_id, "revert", f"{SUPPLIER} monday", "operator:anna", "wrong mapping", "2 revertible"):
        assert text in listed
    assert "You must not approve your own" in cli("approve", task_id, "--yes", code=1)
    shown = cli("approve", task_id, LOGNAME="ben")
    assert "preview 2 revertible, 0 failed" in shown
    assert "Nothing was changed" in shown
    assert not is_reverted(ledger, EXTERNALS[0])
    assert f"{task_id} is approved" in cli("approve", task_id, "--yes", LOGNAME="ben")
    assert DECIDED in cli("approve", task_id, "--yes", LOGNAME="carl", code=1)
    assert DECIDED in cli("reject", task_id, "--reason", "late", LOGNAME="carl", code=1)
    tasks.carry_out(task_id)
    assert is_reverted(ledger, EXTERNALS[1])
    assert ledger.history(f"import/{SUPPLIER}/{EXTERNALS[0]}")[-1].caused_by == "operator:anna"
    [ended] = [json.loads(line) for line in cli("proposals", task_id, "--json").splitlines()]
    assert (ended["status"], ended["user"], ended["decided_by"]) == ("DONE", "operator:anna", "operator:ben")
    assert cli("proposals") == ""


def test_proposals_are_german_in_a_german_locale(cli: Verbs, ledger: Ledger, tasks: Tasks) -> None:
    in_german = partial(cli, LC_ALL="de_DE.UTF-8")

    assert f"{SUPPLIER} ist angelegt." in in_german("supplier", "create", SUPPLIER)
    revert = ("revert", SUPPLIER, "--run", "monday")
    assert in_german(*revert) == (
        "2 zurücknehmbar, 0 behalten, 0 fehlgeschlagen. Nichts wurde geändert. Geben Sie zum Ausführen --yes und "
        "--reason an.\n"
    )
    assert "Mit --reason muss ein Grund angegeben werden" in in_german(*revert, "--yes", code=1)
    assert f"keinen Lauf mondai von {SUPPLIER}, wohl aber monday." in in_german(*revert[:3], "mondai", code=1)
    proposed = in_german(*revert, "--yes", "--reason", "wrong mapping")
    assert " schlägt vor: zurücknehmen, 2 zurücknehmbar, 0 fehlgeschlagen. Nichts wurde geändert." in proposed
    task_id = proposed.split()[0]
    assert f"{task_id}  zurücknehmen  {SUPPLIER} monday  operator:anna" in in_german("proposals")
    assert "Den eigenen dürfen Sie nicht genehmigen." in in_german("approve", task_id, "--yes", code=1)
    assert "\nVorschau 2 zurücknehmbar, 0 fehlgeschlagen\n" in in_german("approve", task_id, LOGNAME="ben")
    assert f"{task_id} ist abgelehnt." in in_german("reject", task_id, "--reason", "no", LOGNAME="ben")
    assert "Über den Vorschlag wurde bereits entschieden." in in_german("approve", task_id, "--yes", code=1)
    healed = in_german("projections", "heal", SUPPLIER, EXTERNALS[0])
    assert "import_status: neu aufgebaut\n" in healed
    for words in (("proposals", task_id), ("projections", "heal", SUPPLIER, EXTERNALS[0]), revert):
        assert in_german(*words, "--json") == cli(*words, "--json")


@pytest.mark.promise("second-person")
def test_every_verb_of_a_listed_action_proposes(
    cli: Verbs, ledger: Ledger, tasks: Tasks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("supplier", "create", SUPPLIER)
    for number in range(MANY + 1):
        stage_account(ledger, SUPPLIER, f"P-{number}")
        stage_account(ledger, SUPPLIER, f"E-{number}")
        for step in (start(), FailImport(start=2, code="c", detail="D.", problems=(), rules_edition="")):
            ledger.execute(f"import/{SUPPLIER}/E-{number}", step, at=tasks.ledger.time(), by="worker:7")
    assert "no-switch" not in cli("projections", "rebuild", "import_supplier"), "a rebuild does not switch by itself"
    (folder / "numbers").write_text("\n".join(EXTERNALS))
    reason = ("--reason", "CHANGE-118")
    previews = {
        ("revert", SUPPLIER, "--file", str(folder / "numbers"), "--yes", *reason): {"revertible": 2, "failed": 0},
        ("release", SUPPLIER, "--yes", *reason): {"released": 2},
        ("erase", SUPPLIER, EXTERNALS[0], "--yes", *reason): {"erased": 1},
        ("supplier", "status", SUPPLIER, "complete", *reason): {"released": 2},
        ("projections", "switch", "import_supplier", "--to", "2", *reason): {"former": 1, "version": 2},
        ("retry", SUPPLIER, "--code", "c", *reason): {"imports": MANY + 1},
        ("cancel", SUPPLIER, "--all", *reason): {"imports": MANY + 1},
    }
    head = len(ledger.history(f"import/{SUPPLIER}/{EXTERNALS[0]}"))
    proposals = {words[0]: json.loads(cli(*words, "--json")) for words in previews}
    assert [proposed["preview"] for proposed in proposals.values()] == [*previews.values()]
    assert [proposed["action"] for proposed in proposals.values()] == [*SECOND_PERSON]
    monkeypatch.setattr(list_of_proposals, "AT_ONCE", 3)
    assert len(cli("proposals", "--json").splitlines()) == len(SECOND_PERSON)
    assert len(ledger.history(f"import/{SUPPLIER}/{EXTERNALS[0]}")) == head
    state: Supplier = ledger.load([f"supplier/{SUPPLIER}"])[f"supplier/{SUPPLIER}"].state
    assert state.status == "ongoing"
    assert "give a reason with --reason" in cli("retry", SUPPLIER, "--all", code=1)
    assert "1 of 1 import" in cli("retry", SUPPLIER, "E-0"), "a single import needs no second person"
    rejected = proposals["cancel"]["proposal"]
    assert "rejected" in cli("reject", rejected, "--reason", "not agreed", LOGNAME="ben")
    assert "decided_for not agreed" in cli("proposals", rejected)
    assert CHANGED in cli("approve", proposals["retry"]["proposal"], LOGNAME="ben", code=1), "one was retried already"
    cli("approve", proposals["erase"]["proposal"], "--yes", LOGNAME="ben")
    tasks.carry_out(proposals["erase"]["proposal"])
    assert isinstance(ledger.history(f"import/{SUPPLIER}/{EXTERNALS[0]}")[-1].event, SubjectErased)
    assert CHANGED in cli("approve", proposals["revert"]["proposal"], "--yes", LOGNAME="ben", code=1), "one is erased"


def test_what_is_not_listed_is_done_at_once_and_what_is_unknown_is_named(
    cli: Verbs, ledger: Ledger, tasks: Tasks
) -> None:
    cli("supplier", "create", SUPPLIER)
    words = ("revert", SUPPLIER, EXTERNALS[0], "--yes", "--reason", "r")
    assert "1 reverted" in cli(*words, IMPORTLEDGER_FOUR_EYES="erase")
    assert "There is no proposal t_1." in cli("proposals", "t_1", code=1)
    assert "no proposal t_1" in cli("approve", "t_1", "--yes", code=1)
    erase = ("erase", SUPPLIER, EXTERNALS[1], "--yes", "--reason", "r", "--json")
    forged = json.loads(cli(*erase, IMPORTLEDGER_REQUEST_KEY="x" * 32))["proposal"]
    assert f"no proposal {forged}" in cli("approve", forged, "--yes", LOGNAME="ben", code=1), "it has another key"
