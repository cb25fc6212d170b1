"""Invariants after faults: no acknowledged account is lost, doubled or illegal, no reverted one is back."""

from collections.abc import Set
from random import Random
from typing import Any

import psycopg

from eventstore.events import aggregate_of, recorded_of
from projections import PROJECTIONS
from projections.versions.compare import verify
from tests.support.commands import LEGAL
from tests.support.running import Importer, RunningService

Rows = psycopg.Connection[dict[str, Any]]


class Findings:
    """Findings of the invariants: the number of acknowledged accounts, and violations."""

    def __init__(self) -> None:
        self.acknowledged = self.lost = self.doubled = self.illegal = self.reverted = 0
        self.sentences: list[str] = []

    def note(self, sentence: str) -> None:
        self.sentences.append(sentence)

    @property
    def is_whole(self) -> bool:
        return not (self.lost or self.doubled or self.illegal or self.sentences)


def findings_of(
    service: RunningService,
    importer: Importer,
    connection: Rows,
    admin_url: str,
    acknowledged: Set[str],
    random: Random,
) -> Findings:
    """Check everything that must hold, at rest. The connection is an administrator's."""
    findings = Findings()
    findings.acknowledged = len(acknowledged)
    _check_log(connection, importer.supplier, acknowledged, findings)
    _check_streams(connection, findings)
    _check_views(connection, admin_url, findings)
    _check_answers(service, importer, acknowledged - _reverted(connection, importer.supplier), findings, random)
    service.cli("seal")
    verified = service.cli("verify", "--all", check=False)
    if verified.returncode:
        findings.note(f"the log does not verify: {verified.stderr}")
    return findings


def _check_log(connection: Rows, supplier: str, acknowledged: Set[str], findings: Findings) -> None:
    def numbers(query: str) -> dict[str, Any]:
        row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row

    staged = {
        row["stream"].split("/", 2)[2]
        for row in connection.execute(
            "SELECT DISTINCT stream FROM events WHERE topic = 'import_staged.v1' AND supplier = %s",
            (supplier,),
        )
    }
    findings.lost = len(acknowledged - staged)
    doubled = numbers(
        "SELECT (SELECT count(*) FROM (SELECT FROM platform.service_account"
        " GROUP BY import_supplier, external_account_number HAVING count(*) > 1) AS a) +"
        " (SELECT count(*) FROM (SELECT FROM events WHERE topic IN ('import_processed.v1', 'import_reverted.v1')"
        " GROUP BY stream"
        " HAVING count(*) FILTER (WHERE topic = 'import_processed.v1')"
        "      > 1 + count(*) FILTER (WHERE topic = 'import_reverted.v1')) AS e) AS n"
    )
    findings.doubled = doubled["n"]
    dense = numbers("SELECT count(*) AS events, coalesce(max(position), 0) AS last FROM events")
    if dense["events"] != dense["last"]:
        findings.note(f"positions have a gap: {dense}")
    sums = numbers(
        "SELECT (SELECT count(*) FILTER (WHERE topic = 'import_processed.v1')"
        "             - count(*) FILTER (WHERE topic = 'import_reverted.v1') FROM events) AS events,"
        " (SELECT count(*) FROM platform.service_account) AS accounts,"
        " (SELECT count(*) FROM import_status WHERE status = 'PROCESSED') AS shown"
    )
    if len(set(sums.values())) != 1:
        findings.note(f"counts do not add up: {sums}")
    back = numbers(
        "SELECT count(*) AS n FROM events AS r JOIN events AS e ON e.stream = r.stream AND e.version = r.version + 1"
        " WHERE r.topic = 'import_reverted.v1'"
    )
    if back["n"]:
        findings.note(f"{back['n']} reverted accounts came back, although no importer has sent them again")
    findings.reverted = numbers("SELECT count(*) AS n FROM events WHERE topic = 'import_reverted.v1'")["n"]
    unfinished = numbers("SELECT count(*) AS n FROM import_status WHERE status IN ('PENDING', 'IN_PROGRESS')")
    if unfinished["n"]:
        findings.note(f"{unfinished['n']} imports have not ended")


def _reverted(connection: Rows, supplier: str) -> set[str]:
    """Return the external numbers of reverted accounts, which no importer sends again."""
    query = "SELECT stream FROM events WHERE topic = 'import_reverted.v1' AND supplier = %s"
    return {row["stream"].split("/", 2)[2] for row in connection.execute(query, (supplier,))}


def _check_streams(connection: Rows, findings: Findings) -> None:
    """Apply the events of every import in order, and count each step that is not allowed."""
    states: dict[str, Any] = {}
    with connection.transaction(), connection.cursor("streams", binary=True) as cursor:
        cursor.itersize = 2_000
        cursor.execute("SELECT * FROM events WHERE stream LIKE 'import/%' ORDER BY position")
        for row in cursor:
            recorded = recorded_of(row)
            aggregate = aggregate_of(recorded.stream)
            version, state = states.get(recorded.stream, (0, aggregate.initial))
            following = aggregate.evolve(state, recorded.event)
            if recorded.version != version + 1 or following.status not in LEGAL[state.status]:
                findings.illegal += 1
            states[recorded.stream] = (recorded.version, following)


def _check_views(connection: Rows, admin_url: str, findings: Findings) -> None:
    for projection in PROJECTIONS:
        if found := verify(admin_url, connection, projection, limit=3).first:
            findings.note(f"{projection.name} is not what the log says: {found}")


def _check_answers(
    service: RunningService, importer: Importer, acknowledged: Set[str], findings: Findings, random: Random
) -> None:
    """Check that v1 and v2 agree for a sample of accounts, and that the lists are complete."""
    client, supplier = importer.client, importer.supplier
    imported = {item["external_account_number"] for item in client.imported(supplier).body}
    pending = {item["external_account_number"] for item in client.pending(supplier).body}
    if missing := acknowledged - imported - pending:
        findings.note(f"{len(missing)} acknowledged accounts are in no list")
    for external in random.sample(sorted(imported), min(20, len(imported))):
        shown = client.status(supplier, external).body
        if shown["status"] != "PROCESSED" or not shown["service_identifier"]:
            findings.note(f"{external} is listed as imported and shown as {shown['status']}")
        path = f"/v1/data-import/account-transfer-status/{supplier}/{external}/"
        headers = {"Authorization": f"Token {importer.api_key}"}
        transferred = service.request("GET", path, None, headers)[0].body
        expected = {"status": "COMPLETED", "service_account_number": shown["service_identifier"]}
        if transferred != expected:
            findings.note(f"v1 shows {external} as {transferred}, v2 as {shown}")
