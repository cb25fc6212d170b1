"""Long requests whose key or user loses its rights meanwhile."""

import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlencode

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.user import ChangeUserRole, DisableUser, EndSessions, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections import INLINE
from tests.support.bulk import bulk, ndjson
from tests.support.console import COOKIE, csrf_in, new_session, new_user
from tests.support.databases import owner_of
from tests.support.following import follow
from tests.support.make import an_account, encoded
from tests.support.running import RunningService
from tests.support.serving import running
from workers.operations import change_user

CREATE = "/v2/data-import/accounts/"


@pytest.fixture(scope="module")
def service(shared_database: PostgresUrls) -> Iterator[RunningService]:
    with running(shared_database) as service:
        yield service


@pytest.fixture
def ledger(shared_database: PostgresUrls) -> Iterator[Ledger]:
    with closing(Ledger(shared_database.service, views=INLINE)) as ledger:
        yield ledger


def begun(
    service: RunningService, method: str, path: str, fields: dict[str, str], body: bytes = b""
) -> http.client.HTTPConnection:
    """A request with its header and half of its body sent."""
    connection = service.connection()
    connection.putrequest(method, path)
    for name, value in fields.items():
        connection.putheader(name, value)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    connection.send(body[: len(body) // 2])
    return connection


@pytest.mark.promise("key-revoked-session-ends")
def test_a_revoked_key_reads_nothing_more_on_an_open_event_stream(service: RunningService, ledger: Ledger) -> None:
    importer = service.importer()
    bulk(importer, ndjson(an_account(importer.supplier, 1)), "?run=open")
    follow(ledger)
    path = f"/v2/data-import/runs/{importer.supplier}/open/events/"
    connection = begun(service, "GET", path, importer.fields)
    response = connection.getresponse()
    assert response.readline() == b"event: progress\n"
    importer.revoke()
    *_, last = response.read().decode().strip().split("\n\n")
    connection.close()
    event = dict(line.split(": ", 1) for line in last.splitlines())
    assert event["event"] == "refused"
    assert json.loads(event["data"]) == {"detail": "The credentials are not valid.", "code": "authentication_failed"}


@pytest.mark.promise("key-revoked-session-ends")
def test_a_key_that_is_revoked_while_its_body_arrives_writes_nothing(service: RunningService, ledger: Ledger) -> None:
    importer = service.importer()
    body = encoded(an_account(importer.supplier, 1))
    connection = begun(service, "POST", CREATE, importer.fields, body)
    importer.revoke()
    connection.send(body[len(body) // 2 :])
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["code"]) == (401, "authentication_failed")
    connection.close()


@pytest.mark.promise("key-revoked-session-ends")
def test_a_user_whose_powers_end_while_a_form_arrives_changes_nothing(service: RunningService, ledger: Ledger) -> None:
    importer = service.importer()
    with closing(owner_of(ledger)) as owner:
        for command in (ChangeUserRole(role="auditor", suppliers=("*",)), DisableUser(), EndSessions()):
            user_id = new_user(ledger, role="operator")
            fields = {"Cookie": f"{COOKIE}={new_session(ledger, user_id)}"}
            page = begun(service, "GET", f"/console/suppliers/{importer.supplier}/", fields)
            csrf = csrf_in(page.getresponse().read().decode())
            body = urlencode({"csrf": csrf, "status": "paused"}).encode()
            form = fields | {"Content-Type": "application/x-www-form-urlencoded"}
            connection = begun(service, "POST", f"/console/suppliers/{importer.supplier}/status/", form, body)
            if isinstance(command, EndSessions):
                change_user(owner, user_id, command, by="t")
            else:
                owner.execute(stream_of(user_id), command, at=now(), by="t")
            connection.send(body[len(body) // 2 :])
            response = connection.getresponse()
            assert (response.status, response.getheader("location", "")[:17]) in ((403, ""), (303, "/console/sign-in/"))
            assert "ongoing" in service.cli("supplier", "show", importer.supplier).stdout, command
            page.close()
            connection.close()
