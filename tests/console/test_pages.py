"""The pages of a list together are the whole list in order, also if rows are inserted meanwhile.

The tests follow the links to the next page.
"""

import re
from collections.abc import Callable, Sequence
from html import escape, unescape
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import Connection

from embedded.postgres import PostgresUrls
from eventstore.aggregates import disclosure, import_process
from eventstore.aggregates.import_process import CompleteImport
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.console import Browser, create_supplier, new_user, stage_account
from tests.support.make import start

SUPPLIER, ACCOUNT = "NW", "A/1"
PAGE = f"/console/imports/{SUPPLIER}/A%2F1/"
Insert = Callable[[Connection[Any], int], None]


class Listed(msgspec.Struct, frozen=True):
    """A list: its page, the name of its links, a pattern for the number in a row, and an insert of a row.

    Numbers are in the order of the list. `size` is the number of rows per page.
    """

    path: str
    name: str
    row: str
    size: int
    insert: Insert


def _sql(query: str, *, is_last_first: bool = False) -> Insert:
    """An insert with `%(n)s`: the row's number, `%(d)s`: 5,000 minus the number, `%(t)s`: the number with zeros."""

    def insert(connection: Connection[Any], number: int) -> None:
        number = 5_000 - number if is_last_first else number
        connection.execute(query, {"n": number, "d": 5_000 - number, "t": f"{number:04}"})

    return insert


_FAILURE = (
    "INSERT INTO import_failure_count VALUES ('NW', %(code)s, 'p' || %(t)s || '.x', 'open', %(d)s),"
    " ('NW', %(code)s, 'p' || %(t)s || '.x', '2999-01-01', 1)"
)
_SUPPLIERS = _sql(
    "INSERT INTO import_supplier SELECT (jsonb_populate_record(s, jsonb_build_object('code', 'A' || %(t)s))).*"
    " FROM import_supplier AS s WHERE code = 'NW'"
)
LISTS = {
    "suppliers of the overview": Listed(
        "/console/?period=week", "Suppliers", r"supplier=A(\d{4})\"", 50,
        _SUPPLIERS,
    ),
    "suppliers": Listed(
        "/console/suppliers/", "Suppliers", r"/suppliers/A(\d{4})/", 100,
        _SUPPLIERS,
    ),
    "keys": Listed(
        "/console/keys/", "Keys", r"/keys/k(\d{4})/", 100,
        _sql("INSERT INTO access_key (key_id, organisation, role, suppliers, rate_per_s, secret_sha256, created_at,"
             " position) VALUES ('k' || %(t)s, 'O', 'importer', '{NW}', 0, '', now(), %(n)s)"),
    ),
    "users": Listed(
        "/console/users/", "Users", r"/users/u(\d{4})/", 100,
        _sql("INSERT INTO console_user (user_id, organisation, role, suppliers, status, created_at, modified_at,"
             " position) VALUES ('u' || %(t)s, 'O', 'support', '{NW}', 'active', now(), now(), %(n)s)"),
    ),
    "failures": Listed(
        "/console/errors/?supplier=NW", "Failed imports", r"<code>p(\d{4})\.<wbr>x</code>", 50,
        _sql(_FAILURE.replace("%(code)s", "'blank'")),
    ),
    "runs": Listed(
        "/console/runs/", "Runs", r"/runs/NW/r(\d{4})/", 50,
        _sql("INSERT INTO import_run (supplier, run, mode, started_at, last_at, position, valid, refused) VALUES"
             " ('NW', 'r' || lpad(%(d)s::text, 4, '0'), 'create', '2026-11-22'::timestamptz + %(n)s * '1 s'::interval,"
             " now(), 1, 0, 0)", is_last_first=True),
    ),
    "refusals": Listed(
        "/console/errors/", "Refused requests", r"<code>r(\d{4})\.<wbr>x</code>", 50,
        _sql("INSERT INTO error_statistics VALUES ('NW', '2999-01-01', 'request', 'blank', 'r' || %(t)s || '.x',"
             " %(d)s / 7)"),
    ),
    "checkpoints": Listed(
        "/console/proof/", "Checkpoints", r"<code>s(\d{4})</code>", 20,
        _sql("INSERT INTO log_checkpoints (size, note, sealed_at, branch) VALUES (%(n)s,"
             " 'o' || chr(10) || %(n)s || chr(10) || 's' || lpad(%(d)s::text, 4, '0'), now(), 0)", is_last_first=True),
    ),
    "tasks": Listed(
        "/console/tasks/", "Requested operations", r">NW k(\d{4})</a>", 50,
        _sql("INSERT INTO owner_task (task_id, kind, arguments, user_id, reason, status, error, requested_at,"
             " modified_at, position) VALUES ('t' || lpad(%(d)s::text, 4, '0'), 'heal',"
             " '{\"supplier\": \"NW\", \"external\": \"k'"
             " || lpad(%(d)s::text, 4, '0') || '\"}', 'u', '', 'DONE', '', '2026-11-22'::timestamptz"
             " + %(n)s / 3 * '1 s'::interval, now(), 1)", is_last_first=True),
    ),
    "attempts": Listed(
        PAGE, "Refused attempts", r"<code>code(\d{4})</code>", 50,
        _sql("INSERT INTO refused_attempts OVERRIDING SYSTEM VALUE SELECT n, 'NW', 'A/1', now(), 'create_account',"
             " 'code' || lpad(%(d)s::text, 4, '0'), '{}' FROM (SELECT %(n)s::bigint AS n) AS r", is_last_first=True),
    ),
    "attached records": Listed(
        f"{PAGE}?tab=attached", "Attached records", r"<code>r(\d{4})</code>", 100,
        _sql("INSERT INTO account_record (stream, kind, supplier, external_account_number, account_number,"
             " is_cancelled, created_at, modified_at, position) VALUES ('delivery-note/NW/A%%2F1/r' || %(t)s,"
             " 'delivery-note', 'NW', 'A/1', 'A-1', false, '2026-11-22'::timestamptz, now(), 1)"),
    ),
    "rows of the platform": Listed(
        f"{PAGE}?tab=platform", "ledger", r"<td>c(\d{4})</td>", 100,
        _sql("INSERT INTO platform.ledger (account_number, ordinal, ledger_code)"
             " VALUES ('A-00000001', %(n)s, 'c' || %(t)s)"),
    ),
}  # fmt: skip


@pytest.fixture
def account(ledger: Ledger, database: PostgresUrls) -> Ledger:
    """A staged account."""
    create_supplier(ledger, SUPPLIER)
    stage_account(ledger, SUPPLIER, ACCOUNT)
    return ledger


def walk(browser: Browser, listed: Listed, between: Callable[[], None] = lambda: None) -> list[list[int]]:
    """Follow the pages, and return the numbers that each shows."""
    shown: list[list[int]] = []
    path = listed.path
    while path and len(shown) < 20:
        page = browser.get(path)
        assert page.status_code == 200, (path, page.text)
        shown.append([int(number) for number in re.findall(listed.row, page.text)])
        ways = re.search(
            rf'<nav class="buttons pages" aria-label="Pages: {re.escape(listed.name)}">.*?</nav>', page.text
        )
        onward = re.search(r'rel="next" href="([^"]+)"', ways[0]) if ways else None
        is_later = ways is not None and "First page" in ways[0]
        assert is_later == (len(shown) > 1), path
        path = unescape(onward[1]).partition("#")[0] if onward else ""
        if len(shown) == 1:
            between()
    return shown


def put_in(database: PostgresUrls, insert: Insert, numbers: Sequence[int]) -> None:
    with psycopg.connect(database.admin) as connection:
        for number in numbers:
            insert(connection, number)


@pytest.mark.parametrize("name", LISTS)
def test_pages_put_together_are_the_whole_list(
    account: Ledger, database: PostgresUrls, operator: Browser, name: str
) -> None:
    listed = LISTS[name]
    whole = range(10, 10 + 2 * listed.size + 3)
    if name == "rows of the platform":
        _create_account(account)
    put_in(database, listed.insert, [10])
    assert walk(operator, listed) == [[10]]
    put_in(database, listed.insert, whole[1:])
    came = whole[-1] + 1
    shown = walk(operator, listed, lambda: put_in(database, listed.insert, [5, came]))
    assert [number for page in shown for number in page] == [*whole, came]
    assert [len(page) for page in shown] == [listed.size, listed.size, 4]


def _create_account(ledger: Ledger) -> None:
    stream = import_process.stream_of(SUPPLIER, ACCOUNT)
    ledger.execute(stream, start(), at=now(), by="worker:1")
    ledger.execute(stream, CompleteImport(start=2, account_number="A-00000001"), at=now(), by="worker:1")


def test_a_long_time_line_goes_on_and_what_is_known_at_its_end_is_known(account: Ledger, support: Browser) -> None:
    user = new_user(account)
    stream = disclosure.stream_of(SUPPLIER, ACCOUNT)
    for number in range(105):
        command = disclosure.ShowPersonalData(user=user, what=(f"w{number}",), reason="r")
        account.execute(stream, command, at=now(), by=f"user:{user}")
    import_stream = import_process.stream_of(SUPPLIER, ACCOUNT)
    account.execute(import_stream, import_process.CancelImport(reason="late"), at=now(), by="operator:t")
    with account.connection() as connection:
        [rows] = connection.execute(
            "SELECT array_agg(position ORDER BY position) AS a FROM events WHERE stream = ANY(%s)",
            ([stream, import_stream],),
        ).fetchall()
    positions = list(rows["a"])[::-1]
    line = Listed(PAGE, "History", r'href="[^"]+\?as_of=(\d+)"', 100, lambda connection, number: None)

    shown = walk(support, line)
    assert [number for page in shown for number in page] == positions
    assert [len(page) for page in shown] == [100, 7]
    now_known = support.get(PAGE).text
    assert "The import is not processed." in now_known  # the newest event counts, however many there are
    assert 'type="datetime-local"' in now_known
    past = Listed(f"{PAGE}?as_of={positions[3]}", "History", line.row, 100, line.insert)
    assert [number for page in walk(support, past) for number in page] == positions[3:]


BROKEN = ("x", "[1]", "-1", "9" * 30, '[1,1,"a\\u0000","b","c"]', '["\\ud800",1]', '["ledger",["x"]]', "null")


def test_a_place_that_no_page_has_given_is_refused(account: Ledger, operator: Browser) -> None:
    _create_account(account)
    places = {
        "/console/": ("after",),
        "/console/tasks/": ("after",),
        "/console/errors/": ("after", "refused-after"),
        "/console/projections/throughput/": ("parked-after",),
        "/console/personal-data/": ("before",),
        "/console/proof/": ("before",),
        PAGE: ("before", "attempts-before", "records-after", "rows-after", "tree-after"),
    }

    for path, names in places.items():
        for name in names:
            for broken in BROKEN if name in ("refused-after", "rows-after") else BROKEN[:3]:
                status = operator.get(path, params={name: broken}).status_code
                assert status == 400, (path, name, broken)
    for kind in ("suppliers", "users", "keys"):
        for odd in ("\0", "é" * 500, "'\"><"):
            assert operator.get(f"/console/{kind}/", params={"after": odd}).status_code == 200


def test_the_others_of_a_page_stay_where_they_are(account: Ledger, database: PostgresUrls, operator: Browser) -> None:
    for name in ("failures", "refusals"):
        put_in(database, LISTS[name].insert, range(100, 151))

    here = unescape(re.findall(r'rel="next" href="([^"#]*)"', operator.get("/console/errors/").text)[0])
    later = re.findall(r'rel="next" href="([^"]*)"', operator.get(here).text)
    assert [(address.startswith(f"{escape(here)}&amp;refused-after=")) for address in later] == [True]
