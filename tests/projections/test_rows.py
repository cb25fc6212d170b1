"""Every table gets the rows of an account, and all of them."""

from projections.platform.rows import rows_of
from projections.platform.tables import ACCOUNT_TABLE, table_columns
from schemas.submission import read_submission
from tests.support.copied import rows_in
from tests.support.make import NOON, an_account, encoded


def test_every_table_gets_rows_from_the_complete_account() -> None:
    account = read_submission(encoded(an_account())).account
    rows = rows_of(account, "A-1", NOON)
    assert set(rows) == {table.name for table in ACCOUNT_TABLE.all()}
    for table in ACCOUNT_TABLE.all():
        assert {len(row) for row in rows_in(rows[table.name])} == {len(table_columns(table))}


def test_an_account_with_very_many_readings_has_them_all_in_order() -> None:
    sent = an_account()
    register = sent["supply_addresses"][0]["supply_points"][0]["melos"][0]["meters"][0]["registers"][0]
    register["readings"] = register["readings"][:1] * 500
    rows = rows_of(read_submission(encoded(sent)).account, "A-1", NOON)
    assert 1 < len(rows["reading"]) < 20, "in a few pieces"
    ordinals = [int.from_bytes(row[1] or b"") for row in rows_in(rows["reading"])]
    assert ordinals == [*range(1, len(ordinals) + 1)]
    assert len(ordinals) >= 500
