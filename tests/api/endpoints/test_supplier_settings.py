"""Effects of a supplier's settings on refusals and records."""

import itertools
import json
from typing import Any

import pytest

from tests.support.make import an_account, changed, encoded
from tests.support.running import Importer, RunningService, wait_for

IDENTIFIER = ("supply_addresses", 0, "supply_points", 0, "identifier")


def with_wrong_check_digit(importer: Importer) -> dict[str, Any]:
    account = changed(an_account(importer.supplier), "12345678901", *IDENTIFIER)
    return changed(account, ["12345678901"], "ledgers", 0, "identifiers")


def set_to(importer: Importer, *settings: str) -> None:
    assert "is set" in importer.service.cli("supplier", "set", importer.supplier, *settings).stdout


def test_a_warning_is_recorded_and_refused_for_a_strict_supplier(service: RunningService) -> None:
    importer = service.importer()
    account = with_wrong_check_digit(importer)
    warning = f"invalid_supply_point_identifier@{'.'.join(map(str, IDENTIFIER))}"
    set_to(importer, "strictness=strict")
    wait_for(lambda: importer.client.validate(encoded(account)).status == 400, "strictness is in force")
    assert importer.client.create(encoded(account)).codes == ("invalid_supply_point_identifier",)
    set_to(importer, "strictness=standard")
    wait_for(lambda: importer.client.create(encoded(account)).status == 201, "the standard is in force")
    history = service.cli("history", importer.supplier, account["external_account_number"], "--json").stdout
    assert json.loads(history.splitlines()[0])["data"]["warnings"] == [warning]


@pytest.mark.promise("only-documented-fields-may")
def test_undocumented_fields_are_dropped_and_each_drop_is_recorded(service: RunningService) -> None:
    importer = service.importer()
    account = changed(an_account(importer.supplier), "x", "loyalty_tier")
    account = changed(account, 1, "customers", 0, "shoe_size")
    external = account["external_account_number"]
    assert sorted(importer.client.create(encoded(account)).codes) == ["unknown_field", "unknown_field"]
    set_to(importer, "unknown-fields=ignore")
    wait_for(lambda: importer.client.create(encoded(account)).status == 201, "the setting is in force")
    set_to(importer, "unknown-fields=refuse")
    wait_for(lambda: importer.client.status(importer.supplier, external).body["status"] == "PROCESSED", "processed")
    history = service.cli("history", importer.supplier, external, "--json").stdout
    dropped = json.loads(history.splitlines()[0])["data"]["dropped_fields"]
    assert sorted(dropped) == ["customers.0.shoe_size", "loyalty_tier"]


def test_a_supplier_for_dry_runs_takes_nothing_else(service: RunningService) -> None:
    importer = service.importer()
    account = an_account(importer.supplier)
    set_to(importer, "dry-run-only=yes")
    fresh = (encoded(changed(account, f"WHILE {n}", "external_account_number")) for n in itertools.count())
    wait_for(lambda: importer.client.create(next(fresh)).codes == ("dry_run_only",), "the setting is in force")
    assert importer.client.create(encoded(account)).codes == ("dry_run_only",)
    assert importer.client.validate(encoded(account)).status == 200
    dry = encoded({"payload": account, "task_params": {"is_dry_run": True}})
    assert importer.client.create(dry).status == 201
    shown = json.loads(service.cli("supplier", "show", importer.supplier, "--json").stdout)
    assert (shown["dry-run-only"], shown["status"], shown["strictness"]) == ("yes", "ongoing", "standard")
    assert "dry-run-only yes" in service.cli("supplier", "show", importer.supplier).stdout


def test_documents_are_not_checked_without_a_root(service: RunningService) -> None:
    importer = service.importer()
    refused = service.cli("supplier", "set", importer.supplier, "documents-check=require", check=False)
    assert refused.returncode == 1
    assert "documents-root" in refused.stderr
    set_to(importer, "documents-root=s3://bucket/nord", "documents-check=require", "customer-emails=on")
    shown = json.loads(service.cli("supplier", "show", importer.supplier, "--json").stdout)
    assert (shown["documents-root"], shown["documents-check"]) == ("s3://bucket/nord", "require")
    assert (shown["customer-emails"], shown["email-language"]) == ("on", "de")
