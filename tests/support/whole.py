"""Check of a running service's database, as its owner: nothing was lost or duplicated."""

import collections
import json
from pathlib import Path

import psycopg

from tests.support.running import Importer, RunningService, wait_for


def assert_whole(service: RunningService, importer: Importer, acknowledged: list[str]) -> None:
    """Every acknowledged import has its one account, positions have no gap, and views agree with the log."""
    wait_for(lambda: set(acknowledged) <= imported(importer), "all that was acknowledged is imported", timeout_s=60)
    wait_for(lambda: importer.client.pending(importer.supplier).body == [], "nothing is left over", timeout_s=60)
    with psycopg.connect(admin_url(service)) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) = max(position) AND count(*) = count(DISTINCT position) FROM events),"
            " (SELECT count(*) FROM (SELECT FROM platform.service_account"
            "  GROUP BY import_supplier, external_account_number HAVING count(*) > 1) AS doubled),"
            " (SELECT count(*) FROM events WHERE topic = 'import_processed.v1'),"
            " (SELECT count(*) FROM platform.service_account),"
            " (SELECT count(*) FROM import_status WHERE status = 'PROCESSED'),"
            " (SELECT count(*) FROM platform.reading),"
            " (SELECT count(*) FROM platform.service_account WHERE import_supplier = %s)",
            (importer.supplier,),
        ).fetchone()
    assert row is not None
    assert row[0] is True
    assert row[1] == 0
    assert row[2] == row[3] == row[4]
    assert row[5] == 6 * row[3]
    assert row[6] == len(imported(importer))


def imported(importer: Importer) -> set[str]:
    numbers = [item["external_account_number"] for item in importer.client.imported(importer.supplier).body]
    assert max(collections.Counter(numbers).values(), default=1) == 1
    return set(numbers)


def admin_url(service: RunningService) -> str:
    file = Path(service.environment["IMPORTLEDGER_DATA_DIR"]) / "secrets" / "connections.json"
    return str(json.loads(file.read_text())["admin_url"])
