"""An auditor checks a proof without the service. After an erasure, history and proofs are still valid."""

import json
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.support.auditors import audited
from tests.support.folders import temporary_folder
from tests.support.make import an_account, changed, encoded
from tests.support.post_account import PATHS, RECORDS
from tests.support.pre_account import a_participant
from tests.support.running import Importer, RunningService, cli, start_service, wait_for
from tests.support.whole import admin_url

CANARY = "Kanarienvogel"


@pytest.fixture(scope="module")
def own_service() -> Iterator[RunningService]:
    """A service of this module alone, since its whole log is verified."""
    with temporary_folder() as folder, start_service(folder) as running:
        yield running


def an_account_with_everything(service: RunningService, importer: Importer, family_name: str) -> str:
    """An account of this person, staged twice, with a record of each kind."""
    account = changed(an_account(importer.supplier, 1), family_name, "customers", 0, "family_name")
    external: str = account["external_account_number"]
    rehearsal = {"payload": account, "task_params": {"is_dry_run": True}}
    for body in (rehearsal, account):
        once = {"Idempotency-Key": f"{importer.supplier} {body is account}"}
        answer, _ = importer.request("POST", "/v2/data-import/accounts/", body, once)
        assert answer.status == 201
        done = "PROCESSED" if body is account else "DRY_RUN_SUCCEEDED"
        wait_for(partial(has_status, importer, external, done), done)
    for kind, record in RECORDS.items():
        body = {"import_supplier": importer.supplier, "external_account_number": external, kind: record}
        once = {"Idempotency-Key": f"{importer.supplier} {kind}"}
        answer, _ = importer.request("POST", PATHS[kind], body, once)
        assert answer.status == 201
    return external


def has_status(importer: Importer, external: str, status: str) -> bool:
    return bool(importer.client.status(importer.supplier, external).body["status"] == status)


def test_a_proof_is_checked_without_us(own_service: RunningService, folder: Path) -> None:
    importer = own_service.importer()
    sealed = json.loads(own_service.cli("seal", "--json").stdout)
    (folder / "kept.note").write_text(sealed["note"])
    external = an_account_with_everything(own_service, importer, "Sperling")
    archive = folder / "x.zip"
    made = own_service.cli(
        "proof", importer.supplier, external, "-o", str(archive), "--payloads", "--against", str(folder / "kept.note")
    )
    assert "proves" in made.stdout
    with zipfile.ZipFile(archive) as proof:
        assert not [name for name in proof.namelist() if name.endswith(".py")], "a proof has data only"
    (folder / "key").write_text(sealed["key"] + "\n")
    trusted = ["--key", str(folder / "key"), "--against", str(folder / "kept.note")]
    holds = audited(folder, str(archive), *trusted)
    assert (holds.returncode, holds.stderr) == (0, "")
    assert "kept by you" in holds.stdout
    assert holds.stdout.count("included") >= 8
    assert holds.stdout.count("matches") == 5
    without_key = own_service.cli("verify", "--all", "--against", str(folder / "kept.note"))
    assert "payloads match their digests" in without_key.stdout
    whole = json.loads(own_service.cli("verify", "--json").stdout)
    assert (whole["problems"], whole["unanchored"]) == ([], 0)


@pytest.mark.promise("erasure-table-any-schema", "contacts-market-participants-erased")
@pytest.mark.asvs("V14.2.4")
def test_an_erased_person_is_gone_everywhere_and_history_and_proofs_hold(
    own_service: RunningService, folder: Path
) -> None:
    importer = own_service.importer()
    answers = remembered(own_service)
    external = an_account_with_everything(own_service, importer, CANARY)
    participant = import_participant(importer)
    assert remembered(own_service) > answers
    own_service.cli("backup", str(folder / "before"), "--keys", str(folder / "old-keys"))
    assert CANARY in own_service.cli("history", importer.supplier, external, "--payloads").stdout
    before = importer.client.status(importer.supplier, external).body
    erased = own_service.cli("erase", importer.supplier, external, "--reason", "DSR-2026-118", "--yes")
    assert "is erased" in erased.stdout
    again = own_service.cli("erase", importer.supplier, external, "--reason", "DSR-2026-118", "--yes")
    assert "was erased already" in again.stdout
    own_service.cli("erase", participant, "--reason", "DSR-2026-118", "--yes")
    history = own_service.cli("history", importer.supplier, external, "--payloads").stdout
    assert "SubjectErased" in history
    assert "was erased" in history
    assert CANARY not in history
    assert importer.client.status(importer.supplier, external).body == before
    assert_only_number_and_keys_remain(own_service, importer, external, before["service_identifier"])
    assert remembered(own_service) == answers
    own_service.cli("projections", "rebuild", "--all")
    assert_only_number_and_keys_remain(own_service, importer, external, before["service_identifier"])
    assert remembered(own_service) == answers
    own_service.cli("seal")
    assert "2 persons were erased" in own_service.cli("verify", "--all").stdout
    own_service.cli("proof", importer.supplier, external, "-o", str(folder / "x.zip"), "--payloads")
    key = json.loads(own_service.cli("seal", "--json").stdout)["key"]
    assert audited(folder, str(folder / "x.zip"), "--key", key).returncode == 0
    refused = importer.client.create(encoded(an_account(importer.supplier, 1)))
    assert refused.codes == ("account_import_process_already_imported",)
    body = {"import_supplier": importer.supplier, "external_account_number": external}
    record = body | {"delivery_note": changed(RECORDS["delivery_note"], "other", "preceding_reference")}
    answer, _ = importer.request("POST", PATHS["delivery_note"], record)
    assert (answer.status, "account_erased" in json.dumps(answer.body)) == (400, True)
    missing = own_service.cli("erase", importer.supplier, "NOBODY", "--reason", "r", "--yes", check=False)
    assert (missing.returncode, "There is no import" in missing.stderr) == (1, True)
    assert_an_older_backup_does_not_bring_the_person_back(own_service, importer, external, folder)


def import_participant(importer: Importer) -> str:
    """A market participant with the person as a contact; its stream."""
    participant = changed(a_participant(), CANARY, "contact_details", 0, "name")
    path, once = "/v1/data-import/market-participant/import/", {"Idempotency-Key": importer.supplier}
    assert importer.request("POST", path, participant, once)[0].status == 201
    return f"participant/Testers/{participant['code']}"


def assert_only_number_and_keys_remain(
    service: RunningService, importer: Importer, external: str, account_number: str
) -> None:
    with psycopg.connect(admin_url(service)) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        for schema, table in tables:
            query = f'SELECT count(*) FROM "{schema}"."{table}" AS t WHERE t::text LIKE \'%{CANARY}%\''
            assert connection.execute(query.encode()).fetchone() == (0,), table
        row = connection.execute(
            "SELECT to_json(a) FROM platform.service_account AS a WHERE import_supplier = %s", (importer.supplier,)
        ).fetchone()
    assert row is not None
    values = {name: value for name, value in row[0].items() if value is not None}
    assert values.pop("erased_at")
    assert values == {
        "account_number": account_number,
        "import_supplier": importer.supplier,
        "external_account_number": external,
    }


def remembered(service: RunningService) -> int:
    """Number of remembered answers."""
    with psycopg.connect(admin_url(service)) as connection:
        return connection.execute("SELECT FROM remembered_answers").rowcount


def assert_an_older_backup_does_not_bring_the_person_back(
    service: RunningService, importer: Importer, external: str, folder: Path
) -> None:
    service.cli("backup", str(folder / "after"), "--keys", str(folder / "new-keys"))
    environment = {"IMPORTLEDGER_DATA_DIR": str(folder / "second")}
    refused = cli("restore", str(folder / "before"), environment=environment, check=False)
    assert (refused.returncode, "The keys are not in this backup" in refused.stderr) == (1, True)
    made = cli(
        *("restore", str(folder / "before"), "--keys", str(folder / "new-keys")),
        *("--against", str(folder / "before" / "checkpoint.note")),
        environment=environment,
    )
    assert f"{external} of {importer.supplier} is erased again" in made.stdout
    assert "The contacts of participant/Testers/" in made.stdout
    with start_service(folder / "second") as restored:
        assert CANARY not in restored.cli("history", importer.supplier, external, "--payloads").stdout
        with psycopg.connect(admin_url(restored)) as connection:
            row = connection.execute(
                "SELECT erased_at IS NULL FROM platform.service_account WHERE import_supplier = %s",
                (importer.supplier,),
            ).fetchone()
            assert connection.execute("SELECT FROM platform.market_participant_contact").rowcount == 0
            assert connection.execute("SELECT FROM platform.market_participant").rowcount == 1
    assert row == (False,)
