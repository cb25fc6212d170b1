"""Lists and objects without a table are whole in a column of their parent, with exact decimals and instants."""

from typing import Any

import msgspec
import psycopg

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from tests.support.make import an_account, changed
from tests.support.staging import SUPPLIER, stage
from workers.actors.process_imports import ImportProcessor

POINT = ("supply_addresses", 0, "supply_points", 0)


def an_account_with_odd_values() -> dict[str, Any]:
    account = changed(an_account(SUPPLIER), "0.31230000", *POINT, "agreements", 0, "params", "unit_rate_per_kwh")
    account = changed(account, {"b": 1, "a": [1.5]}, *POINT, "agreements", 0, "params", "network_charges")
    account = changed(account, "-0.10", "ledgers", 0, "current_statement_transactions", 0, "amount")
    account = changed(account, "2022-11-05T08:30:00.123456", "notes", 0, "created_at")
    return changed(account, [{"key": "k", "value": {"z": 1, "a": [1.5, None, "\u2028"]}}], "metadata")


def test_columns_say_what_was_sent(ledger: Ledger, database: PostgresUrls) -> None:
    account = an_account_with_odd_values()
    ImportProcessor(ledger, worker=lambda: 7).process([stage(ledger, account)])
    with psycopg.connect(database.service) as connection:
        row = connection.execute(
            "SELECT params ->> 'unit_rate_per_kwh', params_network_charges::text, meter_operators,"
            " g.current_statement_transactions #>> '{0,amount}', a.metadata::text, a.notes #>> '{0,created_at}',"
            " pg_typeof(a.notes)::text, pg_typeof(p.meter_operators)::text, pg_typeof(v.params)::text"
            " FROM platform.service_account AS a JOIN platform.supply_point AS p USING (account_number)"
            " JOIN platform.agreement AS v ON v.account_number = a.account_number AND supply_point_ordinal = p.ordinal"
            " JOIN platform.ledger AS g ON g.account_number = a.account_number WHERE p.ordinal = 1"
        ).fetchone()
        readings = connection.execute(
            "SELECT data_type FROM information_schema.columns WHERE table_schema = 'platform'"
            " AND (table_name, column_name) = ('reading', 'value')"
        ).fetchall()
    assert row is not None
    rate, charges, operators, amount, metadata, noted_at, *types = row
    assert (rate, charges, amount) == ("0.31230000", '{"b":1,"a":[1.5]}', "-0.10")
    [sent] = account["supply_addresses"][0]["supply_points"][0]["meter_operators"]
    assert operators[0]["code"] == sent["code"]
    assert operators[0]["valid_from"].endswith("Z")
    assert metadata == msgspec.json.encode(account["metadata"]).decode()
    assert noted_at == "2022-11-05T07:30:00.123456Z"
    assert types == ["json"] * 3
    assert readings == [("numeric",)]
