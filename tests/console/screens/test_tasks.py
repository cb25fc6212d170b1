"""Requested operations: their progress, and the time left since their start."""

from datetime import timedelta

import pytest

from embedded.postgres import PostgresUrls
from eventstore.aggregates.owner_task import OwnerTaskKind, StartOwnerTask, stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from tests.support.console import Browser, Visit, new_user, words_of
from tests.support.databases import Admin
from tests.support.owner_tasks import Tasks
from tests.support.times import set_log_time
from workers.followers.owner_tasks import write_progress


@pytest.mark.promise("rebuild-shows-time-left")
def test_a_rebuild_shows_its_progress_and_the_time_left_since_its_start(
    database: PostgresUrls, ledger: Ledger, visit: Visit
) -> None:
    set_log_time(database, now() - timedelta(days=9))
    user = new_user(ledger, role="operator")
    task_id = Tasks(ledger, database).request(user, "projection_rebuild", name="import_status")
    set_log_time(database, now() - timedelta(hours=10))
    ledger.execute(stream_of(task_id), StartOwnerTask(), at=now(), by="relay")
    browser = visit(user_id=user)
    for done, says in (
        (0, "0 of 4,000"),
        (1_000, "1,000 of 4,000, 30 hours left"),
        (4_000, "4,000 of 4,000, rows are being compared"),
    ):
        with ledger.connection() as connection:
            write_progress(connection, task_id, done, 4_000)
        for path in ("/console/projections/import_status/", "/console/tasks/", "/console/system/"):
            assert says in words_of(browser.get(path).text), path


_FIRST = """
CREATE TABLE first_progress (done bigint, total bigint);
CREATE FUNCTION note_progress() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN INSERT INTO public.first_progress VALUES (NEW.done, NEW.total); RETURN NEW; END $$;
CREATE TRIGGER note_progress AFTER INSERT ON owner_task_progress FOR EACH ROW EXECUTE FUNCTION note_progress()
"""
"""Later progress is an UPDATE."""


@pytest.mark.promise("rebuild-shows-time-left")
@pytest.mark.parametrize("kind", ["projection_rebuild", "projection_verify"])
def test_the_number_of_events_is_known_before_the_first_is_applied(
    database: PostgresUrls, ledger: Ledger, kind: OwnerTaskKind, admin: Admin, operator: Browser
) -> None:
    admin.execute(_FIRST)
    tasks = Tasks(ledger, database)
    done = tasks.done(new_user(ledger, role="operator"), kind, name="import_supplier")
    assert (done.status, done.total > 0) == ("DONE", True)
    assert admin.execute("SELECT * FROM first_progress").fetchall() == [(0, done.total)]
    page = operator.get("/console/projections/import_supplier/").text
    assert "All rows of the view match the log." in page
