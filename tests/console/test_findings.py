"""Findings and parked streams are shown to users who see their suppliers, and to the operator."""

import msgspec
import pytest

from eventstore.aggregates.owner_task import FinishOwnerTask, RequestOwnerTask, StartOwnerTask, stream_of
from eventstore.aggregates.user import UserRole
from eventstore.clock import now
from eventstore.events import supplier_in
from eventstore.log.ledger import Ledger
from tests.support.console import App, new_user, signed_in, visitor
from tests.support.databases import Admin
from workers.followers.owner_tasks import write_progress

OWN, FOREIGN, WHOLE = (
    "PAYLOAD  position 7 (import/NW/OWN-1): its payload is not there",
    "WARNED  payload ab… of import/SW/FOREIGN-1 (import/NW/OWN-2): it has no event",
    "the access key k of FOREIGN-2 differs from the log",
)


@pytest.mark.parametrize(
    ("sentence", "supplier"),
    [
        (OWN, "NW"),
        (FOREIGN, "SW"),
        (WHOLE, None),
        ("(supplier/NW, version 1): stored leaf", "NW"),
        ("position 7 (participant/NW/99): its payload", None),
        ("position 7 (organisation/NW, version 1)", None),
        ("position 7 (reimport/NW/1)", None),
    ],
)
def test_a_finding_is_about_the_supplier_of_the_first_stream_that_it_names(sentence: str, supplier: str | None) -> None:
    assert supplier_in(sentence) == supplier


@pytest.mark.promise("findings-about-log-parked")
@pytest.mark.parametrize("role", ["auditor", "support", "operator"])
def test_findings_and_parked_streams_name_no_account_of_another_tenant(
    ledger: Ledger, role: UserRole, app: App, admin: Admin
) -> None:
    verify_log(ledger, OWN, FOREIGN, WHOLE)
    for position, stream in enumerate(("import/NW/OWN-1", "import/SW/FOREIGN-1", "participant/NW/FOREIGN-2"), 7):
        admin.execute(
            "INSERT INTO parked_streams (name, version, stream, position, error) VALUES (%s, 1, %s, %s, 'e')",
            ("throughput", stream, position),
        )
    for suppliers, sees_all in ((["NW"], False), (["*"], True)):
        with visitor(app, signed_in(ledger, role=role, suppliers=suppliers)) as browser:
            for path in ("/console/proof/", "/console/projections/throughput/", "/console/projections/"):
                page = browser.get(path).text
                assert ("OWN-1" in page) == (path != "/console/projections/")
                assert ("FOREIGN" in page) == (sees_all and path != "/console/projections/")
                assert ("2 findings of the verification concern the whole log" in page) == (
                    path.endswith("proof/") and not sees_all
                )
                assert ("Who asks" in page) == (sees_all and path.endswith("proof/"))


def verify_log(ledger: Ledger, *problems: str) -> None:
    """Record a requested verification with these problems."""
    user, stream = new_user(ledger, role="operator", name="Who asks"), stream_of("t1")
    ledger.execute(stream, RequestOwnerTask(kind="log_verify", arguments={}, user=user), at=now(), by="t")
    ledger.execute(stream, StartOwnerTask(), at=now(), by="t")
    outcome = msgspec.json.encode({"problems": problems}).decode()
    with ledger.connection() as connection:
        write_progress(connection, "t1", 1, 1, outcome)
    ledger.execute(stream, FinishOwnerTask(attempt=1), at=now(), by="t")
