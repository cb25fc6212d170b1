"""The follower that carries out owner's tasks, with requests of users."""

from collections.abc import Collection
from contextlib import closing
from typing import Any

from embedded.postgres import PostgresUrls
from eventstore.aggregates.owner_task import OwnerTaskKind, RequestOwnerTask, actor_of, stream_of, with_mac
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from projections.views.owner_task import OwnerTask, owner_task
from tests.support.console import AUTHORITY
from tests.support.databases import owner_of
from tests.support.rows import run_query_beside
from workers.followers.owner_tasks import OwnerTasks
from workers.proposals import with_preview


def propose(ledger: Ledger, user: str, kind: OwnerTaskKind, task_id: str, **arguments: str) -> None:
    """Propose an operation, as the api or a verb does."""
    command = RequestOwnerTask(kind=kind, arguments=arguments, user=user, reason="r_1", requested_at=now())
    command = with_mac(with_preview(ledger, command), task_id, AUTHORITY.mac)
    with closing(owner_of(ledger)) as owner:
        owner.execute(stream_of(task_id), command, at=now(), by=actor_of(user))


class Tasks(OwnerTasks):
    """The follower, and the users whose requests it carries out."""

    def __init__(self, ledger: Ledger, database: PostgresUrls, four_eyes: Collection[str] = ()) -> None:
        super().__init__(ledger, database.admin, AUTHORITY, self.verified, four_eyes)
        self.ledger = ledger
        self.seen: list[OwnerTask] = []

    def verified(self, arguments: Any, progress: Any) -> dict[str, Any]:
        """Stand in for the verb that verifies the log; keeps the task as it is shown meanwhile."""
        progress(1)
        self.seen.append(self.task("t_log_verify"))
        return {"events": 4, "problems": []}

    def request(self, user: str, kind: OwnerTaskKind, number: str = "", **arguments: str) -> str:
        task_id = f"t_{kind}{number}"
        command = RequestOwnerTask(kind=kind, arguments=arguments, user=user, reason="r_1", requested_at=now())
        command = with_mac(command, task_id, AUTHORITY.mac)
        self.ledger.execute(stream_of(task_id), command, at=now(), by=f"user:{user}")
        return task_id

    def propose(self, user: str, kind: OwnerTaskKind, number: str = "", **arguments: str) -> str:
        task_id = f"t_{kind}{number}"
        propose(self.ledger, user, kind, task_id, **arguments)
        return task_id

    def done(self, user: str, kind: OwnerTaskKind, number: str = "", **arguments: str) -> OwnerTask:
        """Request a task, carry it out, and return it."""
        task_id = self.request(user, kind, number, **arguments)
        self.carry_out(task_id)
        return self.task(task_id)

    def task(self, task_id: str) -> OwnerTask:
        with self.ledger.connection() as connection:
            task: OwnerTask = run_query_beside(connection, owner_task, task_id)
            return task
