"""Checkpoints are listed in pages; the newest is read with the key that has signed it."""

from embedded.postgres import PostgresUrls
from eventstore.proof.checkpoint_list import PAGE, checkpoint_page, newest_signed
from eventstore.proof.checkpoints import LogKey
from tests.support.databases import Admin
from tests.support.make import NOON
from tests.support.rows import run_query

KEY = LogKey.of("A" * 43)


def test_checkpoints_are_listed_in_pages(database: PostgresUrls, admin: Admin) -> None:
    assert newest_signed(admin) is None
    for size in range(1, PAGE + 3):
        note = KEY.sign(size, b"r" * 32, NOON)
        admin.execute("INSERT INTO log_checkpoints (size, note, sealed_at) VALUES (%s, %s, %s)", (size, note, NOON))
    assert newest_signed(admin) is None  # no known key
    admin.execute("INSERT INTO log_keys VALUES (%s, %s, %s)", (KEY.name, KEY.verifier, NOON))
    newest = newest_signed(admin)
    assert newest is not None
    assert (newest[0].size, newest[2]) == (PAGE + 2, KEY.verifier)

    for before, sizes, next_before in ((None, [*range(PAGE + 2, 2, -1)], 3), (3, [2, 1], 0)):
        page = run_query(database.service, checkpoint_page, before)
        assert all((checkpoint.key_name, bool(checkpoint.root)) == (KEY.name, True) for checkpoint in page.checkpoints)
        assert ([checkpoint.size for checkpoint in page.checkpoints], page.next_before) == (sizes, next_before)
