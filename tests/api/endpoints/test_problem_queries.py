"""Problems of an import: its errors, its warnings, and refused attempts."""

import asyncio
import json
import time
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from api.description.problem_sentences import problem_of
from api.endpoints.problem_queries import import_problems
from api.intake.refused_attempts import MAX_WAITING, RefusedAttempts, names_of
from eventstore.aggregates.import_process import DryRunErrored, ImportProcessed, ImportRetried, SubjectErased
from eventstore.events import Recorded
from projections.auxiliary.refused_attempts import (
    MAX_PATH,
    RETENTION,
    Attempt,
    delete_old_attempts,
)
from schemas.base import Problem
from tests.support.make import NOON, an_account, changed, encoded, staged
from tests.support.post_account import PATHS
from tests.support.refused import find_refused_attempts, write
from tests.support.running import Importer, RunningService, wait_for

TOLD = {"Prefer": "return=representation"}
WRONG_POSTCODE = {
    "attr": "billing_postcode",
    "code": "invalid_postcode",
    "detail": "A German postcode must have five digits.",
}


def post(importer: Importer, path: str, account: Any, **headers: str) -> tuple[int, Any, dict[str, str]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer, got = importer.request("POST", f"/v2/data-import/accounts/{path}", account, named)
    return answer.status, answer.body, {name.lower(): value for name, value in got.items()}


def get(importer: Importer, external: str, what: str) -> tuple[int, Any]:
    path = f"/v2/data-import/accounts/{importer.supplier}/{quote(external, safe='')}/{what}/"
    answer, _ = importer.request("GET", path)
    return answer.status, answer.body


def account_of(importer: Importer, number: int) -> dict[str, Any]:
    return changed(an_account(importer.supplier, number), "4109", "billing_postcode")


@pytest.mark.promise("prefer-return-representation-create")
def test_a_validation_tells_its_warnings_when_it_is_asked_to(importer: Importer) -> None:
    account = account_of(importer, 1)
    assert post(importer, "validate/", account)[:2] == (200, {})
    status, body, headers = post(importer, "validate/", account, **TOLD)
    assert (status, body) == (200, {"status": "VALID", "outcome": None, "warnings": [WRONG_POSTCODE]})
    assert headers["preference-applied"] == "return=representation"


@pytest.mark.promise("prefer-return-representation-create")
def test_a_create_tells_what_became_of_it_when_it_is_asked_to(importer: Importer) -> None:
    window = {"schedule_window_start": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))}
    body = {"payload": account_of(importer, 2), "task_params": window}
    told_of = {"status": "PENDING", "warnings": [WRONG_POSTCODE]}
    assert post(importer, "", body, **TOLD)[:2] == (201, told_of | {"outcome": "staged"})
    assert post(importer, "", body, **TOLD)[:2] == (201, told_of | {"outcome": "unchanged"})
    other = changed(body, "Other", "payload", "sales_channel")
    status, answer, headers = post(importer, "", other, **TOLD)
    assert (status, answer) == (201, told_of | {"outcome": "replaced"})
    assert headers["preference-applied"] == "return=representation"
    status, answer, headers = post(importer, "", other)
    assert (status, answer) == (201, {})
    assert "preference-applied" not in headers


@pytest.mark.promise("prefer-return-representation-create")
@pytest.mark.parametrize(
    ("header", "is_told"),
    [
        ("RETURN=representation", True),
        ('respond-async, return="representation"; x=1', True),
        ("return=minimal", False),
        ("return", False),
        ("", False),
    ],
)
def test_other_preferences_are_passed_over(importer: Importer, header: str, is_told: bool) -> None:
    status, body, headers = post(importer, "validate/", account_of(importer, 1), Prefer=header)
    assert status == 200
    assert (body != {}) == is_told == ("preference-applied" in headers)


def test_a_repeat_gets_the_first_answer_whatever_it_prefers(importer: Importer) -> None:
    first = post(importer, "", account_of(importer, 3), Idempotency_Key="told", **TOLD)
    again = post(importer, "", account_of(importer, 3), Idempotency_Key="told", **TOLD)
    plain = post(importer, "", account_of(importer, 3), Idempotency_Key="told")
    assert first[:2] == again[:2] == plain[:2]
    assert first[1]["outcome"] == "staged"
    assert again[2]["preference-applied"] == "return=representation"
    assert "preference-applied" not in plain[2]
    quiet = post(importer, "", account_of(importer, 4), Idempotency_Key="quiet")
    later = post(importer, "", account_of(importer, 4), Idempotency_Key="quiet", **TOLD)
    assert quiet[:2] == later[:2] == (201, {})
    assert "preference-applied" not in later[2]


@pytest.mark.promise("problems-show-errors-and-warnings")
def test_the_problems_of_an_import_have_its_warnings(importer: Importer) -> None:
    account = account_of(importer, 5)
    assert post(importer, "", account)[0] == 201
    status, body = get(importer, account["external_account_number"], "problems")
    assert (status, body["errors"]) == (200, [])
    assert WRONG_POSTCODE in body["warnings"]


@pytest.mark.promise("latest-error-detail-names")
def test_a_failed_import_tells_all_its_errors_and_names_the_documents(service: RunningService, folder: Any) -> None:
    importer = service.importer()
    root = f"documents-root=file://{folder}"
    service.cli("supplier", "set", importer.supplier, root, "documents-check=require")
    wait_for(lambda: fails(importer), "the setting is in force")
    account = an_account(importer.supplier, 1)
    path = account["statements"][0]["statement_path"]
    external = account["external_account_number"]
    _, body = get(importer, external, "problems")
    [error] = body["errors"]
    assert error["attr"] == "statements.0.statement_path"
    assert error["code"] == "path_does_not_exist_in_file_store"
    assert path in error["detail"]
    status = importer.client.status(importer.supplier, external).body
    assert path in status["latest_error"]["detail"]
    history = service.cli("history", importer.supplier, external).stdout
    assert path not in history
    assert path in service.cli("status", importer.supplier, external).stdout
    service.cli("erase", importer.supplier, external, "--reason", "R", "--yes")
    _, body = get(importer, external, "problems")
    assert path not in json.dumps(body)


def fails(importer: Importer) -> bool:
    account = an_account(importer.supplier, 1)
    importer.client.create(encoded(account))
    external = account["external_account_number"]
    wait_for(
        lambda: importer.client.status(importer.supplier, external).body["status"] in ("PROCESSED", "ERRORED"),
        "it ends",
    )
    return bool(importer.client.status(importer.supplier, external).body["status"] == "ERRORED")


def recorded(version: int, event: Any) -> Recorded:
    return Recorded("import/S/1", version, event, NOON, "S", "t", None, version, "1")


@pytest.mark.promise("problems-show-errors-and-warnings")
def test_problems_are_those_since_the_last_staging() -> None:
    first = staged(warnings=("invalid_postcode@billing_postcode",), dropped_fields=("customers.0.x",))
    warned = ImportProcessed(
        attempt=1, account_number="A-1", warnings=("market_participant_not_found@supply_addresses.0",), created_at=NOON
    )
    failed = DryRunErrored(attempt=1, code="c", detail="d", problems=("invalid_iban@payment_instructions.0",))
    exhausted = DryRunErrored(attempt=1, code="attempts_exhausted", detail="Given up.")
    assert [p.code for p in import_problems([recorded(1, first)]).warnings] == ["invalid_postcode", "unknown_field"]
    both = import_problems([recorded(1, first), recorded(2, warned)])
    assert [p.code for p in both.warnings] == ["invalid_postcode", "unknown_field", "market_participant_not_found"]
    found = import_problems([recorded(1, first), recorded(2, failed)])
    assert [(p.attr, p.code) for p in found.errors] == [("payment_instructions.0", "invalid_iban")]
    assert import_problems([recorded(1, first), recorded(2, exhausted)]).errors == (
        Problem("non_field_errors", "attempts_exhausted", "Given up."),
    )
    assert import_problems([recorded(1, first), recorded(2, failed), recorded(3, ImportRetried())]).errors == ()
    erased = import_problems([recorded(1, first), recorded(2, failed), recorded(3, SubjectErased(erased_at=NOON))])
    assert erased.errors == ()


@pytest.mark.parametrize(
    ("name", "attr", "says"),
    [
        ("invalid_postcode@billing_postcode", "billing_postcode", "A German postcode must have five digits."),
        (
            "negative_number@payment_schedules.0.amount",
            "payment_schedules.0.amount",
            "A payment schedule's amount must not be negative.",
        ),
        ("required@customers.0.consents.0.type", "customers.0.consents.0.type", "Consents → type must be given."),
        ("unknown_field@customers.0.Erika", "customers.0.*", "This field is not documented and must be left out."),
        ("made_up", "non_field_errors", "The catalogue does not know this code."),
    ],
)
def test_a_name_in_the_log_is_told_as_a_sentence(name: str, attr: str, says: str) -> None:
    assert problem_of(name) == Problem(attr, name.partition("@")[0], says)


@pytest.mark.promise("refused-attempt-found-number", "refused-attempts-found-number")
@pytest.mark.asvs("V16.3.3")
def test_refused_attempts_are_found_by_number(importer: Importer) -> None:
    account = changed(an_account(importer.supplier, 70), "Mustermann-Canary", "customers", 0, "landline")
    account["customers"][0]["Erika Canary"] = 1
    external = account["external_account_number"]
    assert post(importer, "", account)[0] == 400
    assert post(importer, "validate/", account)[0] == 400

    def attempts() -> Any:
        return get(importer, external, "attempts")[1]

    wait_for(lambda: len(attempts()) == 2, "both attempts are stored")
    assert [attempt["operation"] for attempt in attempts()] == ["validate_account", "create_account"]
    assert {attempt["code"] for attempt in attempts()} == {"account_failed_validation"}
    named = {(p["code"], p["attr"]) for p in attempts()[0]["problems"]}
    assert named == {("invalid_phone_number", "customers.0.landline"), ("unknown_field", "customers.0.*")}
    assert "Canary" not in json.dumps(attempts())
    assert get(importer, "NONE", "attempts") == (200, [])


@pytest.mark.promise("refused-attempt-found-number", "refused-attempts-found-number")
@pytest.mark.parametrize(
    ("supplier", "typed", "kept"),
    [
        (7, "L" * 200, "L" * 128),
        ("NOBODY", 4711, "4711"),
    ],
)
def test_a_malformed_number_or_an_unknown_supplier_leaves_an_attempt(
    service: RunningService, supplier: Any, typed: Any, kept: str
) -> None:
    """A supplier that nobody knows was meant for the only one of the key."""
    importer = service.importer()
    account = an_account() | {"external_account_number": typed, "import_supplier": supplier}
    assert post(importer, "", {"payload": account})[0] == 400
    record = {name: account[name] for name in ("import_supplier", "external_account_number")}
    kind = "delivery_note"
    headers = {"Authorization": f"Token {importer.api_key}"}
    assert service.request("POST", PATHS[kind], encoded(record | {kind: {}}), headers)[0].status == 400
    for path in ("/v2/data-import/accounts/bulk/", "/v1/data-import/delivery-note/bulk/"):
        assert (
            service.request("POST", path, encoded(account if "accounts" in path else record), headers)[0].status == 200
        )
    wait_for(lambda: len(get(importer, kept, "attempts")[1]) == 4, "all are stored")


def test_a_number_that_no_table_takes_keeps_no_others_from_being_stored(ledger: Any) -> None:
    attempts = RefusedAttempts(ledger)
    for number in ("A\0B", "\ud800", "", "  ", "x" * 100_000, "NW-1"):
        attempts.note("create_account", "S", number, "c", [])
    asyncio.run(attempts.write())
    with ledger.connection() as connection:
        assert len(find_refused_attempts(connection, "NW-1")) == 1
        assert len(find_refused_attempts(connection, "x" * 128)) == 1


@pytest.mark.promise("they-lie-outside-log")
def test_erasing_deletes_refused_attempts_even_without_an_import(service: RunningService, importer: Importer) -> None:
    account = changed(an_account(importer.supplier, 72), "x", "customers", 0, "landline")
    external = account["external_account_number"]
    assert post(importer, "", account)[0] == 400
    wait_for(lambda: bool(get(importer, external, "attempts")[1]), "it is stored")
    erased = service.cli("erase", importer.supplier, external, "--reason", "R", "--yes")
    assert "1 refused attempt is deleted" in erased.stdout
    assert get(importer, external, "attempts") == (200, [])
    again = service.cli("erase", importer.supplier, external, "--reason", "R", "--yes", check=False)
    assert again.returncode == 1


def attempt(external: str = "1", supplier: str = "S", **fields: Any) -> Attempt:
    values: dict[str, Any] = {"attempted_at": NOON, "operation": "create_account", "code": "c"} | fields
    return Attempt(supplier=supplier, external_account_number=external, **values)


@pytest.mark.promise("they-lie-outside-log")
def test_attempts_are_forgotten_after_ninety_days_and_beyond_a_number(database: Any) -> None:
    with psycopg.connect(database.service, autocommit=True) as connection:
        write(connection, attempt(attempted_at=NOON - RETENTION - timedelta(seconds=1)), attempt())
        write(connection, *(attempt(str(number), "T") for number in range(5)))
        assert delete_old_attempts(connection, NOON, limit=3) == 3
        assert [a.attempted_at for a in find_refused_attempts(connection, "1")] == [NOON]
        assert [len(find_refused_attempts(connection, str(number))) for number in range(5)] == [0, 1, 1, 1, 1]


@pytest.mark.promise("they-lie-outside-log")
def test_an_attempt_from_before_an_erasure_is_not_written_after_it(database: Any) -> None:
    with psycopg.connect(database.admin, autocommit=True) as connection:
        connection.execute("INSERT INTO payload_keys (stream, erased_at) VALUES ('import/S/1', %s)", (NOON,))
        write(connection, attempt(), attempt(attempted_at=NOON + timedelta(seconds=1)))
        assert [a.attempted_at for a in find_refused_attempts(connection, "1")] == [NOON + timedelta(seconds=1)]


def test_what_one_process_keeps_of_a_flood_is_bounded(ledger: Any) -> None:
    attempts = RefusedAttempts(ledger)
    deep = Problem(".".join(["metadata", "0", "value"] * 200), "null_characters_not_allowed", "x")
    names = names_of([deep] * 1000)
    for number in range(MAX_WAITING + 10):
        attempts.note("create_account", "S", str(number), "c", names)
    asyncio.run(attempts.write())
    with ledger.connection() as connection:
        [row] = connection.execute("SELECT count(*) AS n FROM refused_attempts").fetchall()
        assert row["n"] == MAX_WAITING
        [attempt] = find_refused_attempts(connection, "7")
        assert len(attempt.problems) == 1
        assert len(attempt.problems[0]) < MAX_PATH + 50


@pytest.mark.promise("refused-attempts-found-number")
def test_refusals_for_what_is_there_already_are_attempts_too(service: RunningService, importer: Importer) -> None:
    account = an_account(importer.supplier, 71)
    external = account["external_account_number"]
    assert post(importer, "", account)[0] == 201
    wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "PROCESSED", "it is created")
    assert post(importer, "", account)[0] == 400
    wait_for(lambda: bool(get(importer, external, "attempts")[1]), "it is stored")
    [attempt] = get(importer, external, "attempts")[1]
    assert (attempt["code"], attempt["problems"]) == ("account_import_process_already_imported", [])
