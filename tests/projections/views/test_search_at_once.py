"""The search row of an account is written with its first event, and equals the row made from the log."""

import itertools
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.aggregates.import_process import CancelImport, StageImport, stream_of
from eventstore.clock import now
from eventstore.events import Recorded
from eventstore.log.columns import log_head
from eventstore.log.ledger import Ledger
from eventstore.log.payloads import Payload
from eventstore.log.rows import value_of
from projections import AT_ONCE, FOLLOWING
from projections.versions.compare import verify
from projections.versions.reading import Seen
from projections.versions.versions import build_version, live_version, parked_streams, switch, version_lock
from projections.views.account_search import ACCOUNT_SEARCH, PART_BITS, project
from projections.views.search_at_once import view_values_of
from schemas.submission import sent_submission
from tests.support.following import follow
from tests.support.make import NOON, an_account, changed, encoded, staged
from tests.support.rows import find_accounts
from tests.support.running import wait_for
from tests.support.staging import SUPPLIER
from tests.support.threads import running
from workers.followers.projector import Projector

_numbers = itertools.count(1)
TERMS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@pytest.fixture
def log(database: PostgresUrls) -> Iterator[Ledger]:
    """A ledger like that of an api process."""
    opened = Ledger(database.service, views=AT_ONCE)
    yield opened
    opened.close()


def stage(ledger: Ledger, account: dict[str, Any], *, is_wrapped: bool = False) -> str:
    """Stage an account like the api does, with its search terms."""
    return stage_body(ledger, encoded({"payload": account} if is_wrapped else account))


def stage_body(ledger: Ledger, body: bytes) -> str:
    read = sent_submission(body)
    assert not read.shape_errors, "the api would refuse it"
    payload = Payload.of(body, view_values_of(body, read.account))
    digest = payload.sha256.hex()
    command = StageImport(payload_sha256=digest, content_sha256=digest, payload_bytes=len(body))
    stream = stream_of(SUPPLIER, read.account.external_account_number)
    ledger.execute(stream, command, at=now(), by="t", payload=payload)
    return stream


def rows(connection: Connection[Any]) -> dict[str, tuple[Any, ...]]:
    found = connection.execute("SELECT * FROM account_search").fetchall()
    return {str((values := tuple(dict(row).values() if isinstance(row, dict) else row))[0]): values for row in found}


def followed(stream: str, position: int, body: bytes) -> tuple[Any, ...]:
    recorded = Recorded(stream, 1, staged(), NOON, SUPPLIER, "t", None, position, "1")
    [row] = project(Seen(recorded, body=body))
    return row


@pytest.mark.promise("account-found-soon-post")
@given(
    given_name=TERMS,
    family_name=TERMS,
    email=st.sampled_from(["", "a@example.com", "Größe.7@example.com"]),
    meter=TERMS,
    is_wrapped=st.booleans(),
    begins_a_part=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_at_once_is_what_following_makes(
    log: Ledger,
    admin: Connection[Any],
    given_name: str,
    family_name: str,
    email: str,
    meter: str,
    is_wrapped: bool,
    begins_a_part: bool,
) -> None:
    account = changed(an_account(SUPPLIER, next(_numbers)), given_name, "customers", 0, "given_name")
    account = changed(account, family_name, "customers", 0, "family_name")
    account = changed(account, email, "customers", 0, "email") if email else account
    place = ("supply_addresses", 0, "supply_points", 0, "melos", 0, "meters", 0, "meter_number")
    account = changed(account, meter, *place)
    body = encoded({"payload": account} if is_wrapped else account)
    assume(not sent_submission(body).shape_errors)
    if begins_a_part:
        position = ((log_head(admin) >> PART_BITS) + 1) << PART_BITS
        admin.execute(
            "INSERT INTO events (position, stream, version, topic, recorded_at, caused_by, code_version, state)"
            " VALUES (%s, %s, 1, 'import_staged.v1', now(), 't', '1', '{}')",
            (position, f"import/S/{position}"),
        )
    stream = stage(log, account, is_wrapped=is_wrapped)
    assert rows(admin)[stream] == followed(stream, log_head(admin), body)


@pytest.mark.promise("account-found-soon-post")
def test_it_is_found_before_anybody_follows_and_nobody_opens_its_payload_for_that(
    log: Ledger, admin: Connection[Any]
) -> None:
    account = changed(an_account(SUPPLIER, 1), "Vogelsang", "customers", 0, "family_name")
    stream = stage(log, account)
    with log.connection() as connection:
        [found] = find_accounts(connection, "vogelsang", None).accounts
    assert found.external_account_number == account["external_account_number"]
    before = rows(admin)
    admin.execute("UPDATE payloads SET content = 'spoilt'")
    follow(log)
    assert rows(admin) == before
    assert parked_streams(admin, "account_search", live_version(admin, "account_search").version) == []
    assert stream in before


def test_what_is_sent_once_more_is_followed(log: Ledger, admin: Connection[Any]) -> None:
    """The second payload may be in one batch with the first, or in a later one."""
    for is_followed_between in (False, True):
        number = 10 + is_followed_between
        stream = stage(log, changed(an_account(SUPPLIER, number), "Vorher", "customers", 0, "family_name"))
        if is_followed_between:
            follow(log)
        log.execute(stream, CancelImport(), at=now(), by="t")
        stage(log, changed(an_account(SUPPLIER, number), "Nachher", "customers", 0, "family_name"))
        assert "vorher" in rows(admin)[stream][3]
        follow(log)
        assert "nachher" in rows(admin)[stream][3]


def test_a_verification_sees_the_rows_of_its_moment_and_a_new_version_gets_all(
    log: Ledger, admin: Connection[Any], database: PostgresUrls
) -> None:
    """Appends write rows ahead of the projection's position."""
    stage(log, an_account(SUPPLIER, 1))
    follow(log)
    for number in (2, 3):
        stage(log, an_account(SUPPLIER, number))
        assert live_version(admin, "account_search").position < log_head(admin)
        assert verify(database.admin, admin, ACCOUNT_SEARCH, limit=3).count == 0
        with version_lock(admin, ACCOUNT_SEARCH):
            built = build_version(database.admin, admin, ACCOUNT_SEARCH)
            switch(admin, ACCOUNT_SEARCH, built.version)
    follow(log)
    assert len(rows(admin)) == 3
    admin.execute("DELETE FROM account_search WHERE stream LIKE '%%2'")
    assert verify(database.admin, admin, ACCOUNT_SEARCH, limit=3).added == 1


def test_a_table_of_another_release_is_left_to_it(log: Ledger, admin: Connection[Any]) -> None:
    admin.execute("UPDATE projection_versions SET definition = 'former' WHERE name = 'account_search'")
    stage(log, an_account(SUPPLIER, 1))
    assert rows(admin) == {}


def test_new_entries_of_the_index_are_put_in_order_by_who_follows_when_there_are_many_or_there_is_time(
    log: Ledger, admin: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service's role may flush the index, although it is not the owner."""

    def left() -> int:
        """Return the number of pages in the pending list."""
        return int(value_of(admin, "SELECT gin_clean_pending_list('account_search_terms_idx')"))

    stage(log, an_account(SUPPLIER, 1))
    follow(log)
    for number, gathered, is_idle, is_left in (
        (2, 10**9, False, True),
        (3, 10**9, True, False),
        (4, 9, False, False),
    ):
        monkeypatch.setattr("projections.views.account_search.MAX_PENDING_TERMS", gathered)
        stage(log, an_account(SUPPLIER, number))
        follow(log)
        with log.connection() as connection:
            ACCOUNT_SEARCH.maintain(connection, is_idle=is_idle)
        assert (left() > 0) is is_left


def test_a_projector_that_may_not_put_in_order_goes_on(log: Ledger, admin: Connection[Any]) -> None:
    admin.execute("REVOKE EXECUTE ON FUNCTION put_searches_in_order() FROM PUBLIC, importledger_relay")
    with running(Projector(log, FOLLOWING).start):
        for number in (1, 2):
            stream = stage(log, an_account(SUPPLIER, number))
            wait_for(lambda: live_version(admin, "account_search").position == log_head(admin), f"{stream} is followed")


@pytest.mark.parametrize(
    ("function", "relation", "columns"),
    [
        ("put_searches_in_order", "pg_am", "pg_temp.grab() AS oid, 'gin'::name AS amname"),
        ("synchronous_standbys", "pg_stat_replication", "pg_temp.grab()::text AS sync_state"),
    ],
)
def test_what_runs_with_the_owners_rights_reads_nothing_of_the_callers(
    database: PostgresUrls, admin: Connection[Any], function: str, relation: str, columns: str
) -> None:
    with psycopg.connect(database.service, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION pg_temp.grab() RETURNS oid LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'ran as %', current_user; END $$"
        )
        connection.execute(f"CREATE TEMP VIEW {relation} AS SELECT {columns}".encode())
        connection.execute(f"SELECT {function}()".encode())
    granted = value_of(admin, "SELECT proacl::text FROM pg_proc WHERE proname = %s", function)
    assert "{=X" not in granted
    assert ",=X" not in granted


@pytest.mark.parametrize(
    "account",
    [
        an_account(SUPPLIER, 1) | {"customers": an_account(SUPPLIER, 1)["customers"] * 300},
        changed(an_account(SUPPLIER, 1), "\ufdfa" * 255, "customers", 0, "family_name"),
        an_account(SUPPLIER, 1) | {"metadata": {"note": "x" * 70_000}},
    ],
    ids=["many customers", "a name that becomes long", "a large body"],
)
def test_what_takes_long_to_fold_is_left_to_who_follows(account: dict[str, Any]) -> None:
    body = encoded(account)
    assert view_values_of(body, sent_submission(body).account) is None


@pytest.mark.parametrize("is_at_once", [True, False])
def test_a_name_that_is_long_once_it_is_folded_is_found_and_hinders_nobody(
    log: Ledger, ledger: Ledger, admin: Connection[Any], is_at_once: bool
) -> None:
    """An entry of the index has 2,700 bytes at most; this letter becomes six letters of three bytes each."""
    name = "\u3316" * 255
    stream = stage(log if is_at_once else ledger, changed(an_account(SUPPLIER, 1), name, "customers", 0, "family_name"))
    follow(log)
    assert stream in rows(admin)
    with log.connection() as connection:
        for text in (name, f"{name} {name}", name[:5]):
            assert len(find_accounts(connection, text, None).accounts) == 1


def test_an_account_with_very_many_terms_is_left_to_who_follows(
    log: Ledger, admin: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projections.views.search_at_once.MOST_TERMS", 3)
    stream = stage(log, an_account(SUPPLIER, 1))
    assert rows(admin) == {}
    follow(log)
    assert [*rows(admin)] == [stream]
