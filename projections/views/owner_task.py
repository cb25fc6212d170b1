"""Tasks with the rights of the database's owner that users have requested.

Table `owner_task`; written with the append.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import msgspec
from psycopg import AsyncConnection, Connection

from eventstore.aggregates.owner_task import (
    OWNER_TASK,
    PROPOSAL_LASTS,
    OwnerTaskApproved,
    OwnerTaskFailed,
    OwnerTaskFinished,
    OwnerTaskRejected,
    OwnerTaskRequested,
    OwnerTaskStarted,
)
from eventstore.clock import now
from eventstore.log.rows import fetch_rows, fetch_struct, fetch_structs, rows_of
from eventstore.operations.rights import Rights
from projections.versions.view import View


class OwnerTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task with its progress.

    `outcome` is JSON, "" before the end. `decided_by` is the person who has approved or rejected a proposal, and
    `decided_for` is the reason of a rejection.
    """

    task_id: str
    kind: str
    arguments: dict[str, str]
    user_id: str
    reason: str
    status: str
    error: str
    requested_at: datetime
    modified_at: datetime
    done: int
    total: int
    outcome: str
    decided_by: str | None
    decided_for: str | None

    @property
    def sort_key(self) -> "TaskSortKey":
        """Sort key of this task. The next page begins after the sort key of the last task."""
        return self.requested_at, self.task_id

    @property
    def is_open(self) -> bool:
        return self.status in ("REQUESTED", "RUNNING")


TaskSortKey = tuple[datetime, str]
"""Sort key of lists of tasks: time of request, and id."""


OWNER_TASK_VIEW = View(
    "owner_task",
    "task_id text NOT NULL, kind text NOT NULL, arguments text NOT NULL, user_id text NOT NULL, reason text NOT NULL,"
    " status text NOT NULL, error text NOT NULL, requested_at timestamptz NOT NULL, modified_at timestamptz NOT NULL,"
    " position bigint NOT NULL, decided_by text, decided_for text",
    {
        OwnerTaskRequested: lambda event, _: {
            "kind": event.kind,
            "arguments": msgspec.json.encode(event.arguments).decode(),
            "user_id": event.user,
            "reason": event.reason,
            "status": "PROPOSED" if event.preview_sha256 else "REQUESTED",
            "error": "",
        },
        OwnerTaskApproved: lambda event, _: {"status": "REQUESTED", "decided_by": event.user},
        OwnerTaskRejected: lambda event, _: {
            "status": "REJECTED",
            "decided_by": event.user,
            "decided_for": event.reason,
        },
        OwnerTaskStarted: {"status": "RUNNING"},
        OwnerTaskFinished: {"status": "DONE"},
        OwnerTaskFailed: lambda event, _: {"status": "FAILED", "error": event.error},
    },
    prefix=OWNER_TASK.prefix,
    named=("task_id",),
    first=("requested_at",),
    times=("requested_at", "modified_at"),
    keeps_old=True,
    folds_all=True,
    indexes={
        "owner_task_open": "(requested_at) WHERE status IN ('REQUESTED', 'RUNNING')",
        "owner_task_newest": "(requested_at DESC, task_id)",
    },
    rights=Rights(api="SIU", worker="", relay="SIU"),
)

_SELECT = """
SELECT t.task_id, t.kind, t.arguments, t.user_id, t.reason, t.status, t.error, t.requested_at, t.modified_at,
       coalesce(p.done, 0) AS done, coalesce(p.total, 0) AS total, coalesce(p.outcome, '') AS outcome,
       t.decided_by, t.decided_for
FROM owner_task AS t
LEFT JOIN owner_task_progress AS p USING (task_id)
"""
_SELECT_NEWEST = f"""{_SELECT}
WHERE (%(kind)s = '' OR t.kind = %(kind)s) AND t.arguments::jsonb @> %(arguments)s::jsonb
ORDER BY t.requested_at DESC, t.task_id
LIMIT %(limit)s
"""
_SELECT_PAGE = f"""{_SELECT}
WHERE (%(suppliers)s::text[] IS NULL OR t.arguments::jsonb ->> 'supplier' = ANY(%(suppliers)s))
  AND (%(at)s::timestamptz IS NULL OR t.requested_at < %(at)s OR (t.requested_at = %(at)s AND t.task_id > %(after)s))
ORDER BY t.requested_at DESC, t.task_id
LIMIT %(limit)s
"""
_SELECT_ONE = f"{_SELECT} WHERE t.task_id = %(task_id)s"
_SELECT_OPEN = """
SELECT task_id
FROM (
    SELECT task_id, kind, status, requested_at, row_number() OVER (PARTITION BY user_id ORDER BY requested_at) AS turn
    FROM owner_task
    WHERE requested_at
        > (SELECT min(requested_at) FROM owner_task WHERE status IN ('REQUESTED', 'RUNNING')) - interval '1 hour'
) AS recent
WHERE status IN ('REQUESTED', 'RUNNING') AND (kind ~ '^(key|user)_') = %(of_access)s
ORDER BY turn, requested_at
LIMIT 100
"""
_IS_PROPOSED = """
WHERE t.status = 'PROPOSED' AND t.requested_at > %(since)s
  AND (%(suppliers)s::text[] IS NULL OR t.arguments::jsonb ->> 'supplier' = ANY(%(suppliers)s))
"""
_SELECT_PROPOSED = f"""{_SELECT} {_IS_PROPOSED}
  AND (%(at)s::timestamptz IS NULL OR (t.requested_at, t.task_id) > (%(at)s, %(after)s))
ORDER BY t.requested_at, t.task_id
LIMIT %(limit)s
"""
_COUNT_PROPOSED = f"SELECT count(*) FROM owner_task AS t {_IS_PROPOSED}"  # noqa: S608 - our own condition
_SELECT_ALL_OPEN = f"{_SELECT} WHERE t.status IN ('REQUESTED', 'RUNNING') ORDER BY t.requested_at LIMIT %(limit)s"


async def owner_tasks(
    connection: AsyncConnection[Any], kind: str, arguments: Mapping[str, str], limit: int
) -> list[OwnerTask]:
    """Read the newest tasks of a kind, or "" for all, with these arguments."""
    encoded = msgspec.json.encode(arguments).decode()
    return await fetch_structs(connection, _task, _SELECT_NEWEST, kind=kind, arguments=encoded, limit=limit)


async def owner_tasks_page(
    connection: AsyncConnection[Any],
    suppliers: Collection[str] | None,
    *,
    after: TaskSortKey | None = None,
    limit: int,
) -> list[OwnerTask]:
    """Read tasks after a sort key, the newest first.

    `suppliers` limits them to tasks about imports of these suppliers.
    """
    at, task_id = after or (None, "")
    codes = None if suppliers is None else list(suppliers)
    return await fetch_structs(connection, _task, _SELECT_PAGE, suppliers=codes, at=at, after=task_id, limit=limit)


_COUNT = """
SELECT count(*)
FROM owner_task
WHERE %(suppliers)s::text[] IS NULL OR arguments::jsonb ->> 'supplier' = ANY(%(suppliers)s)
"""


async def count_owner_tasks(connection: AsyncConnection[Any], suppliers: Collection[str] | None) -> int:
    """Count the tasks: all, or those about imports of these suppliers."""
    [(number,)] = await fetch_rows(connection, _COUNT, suppliers=None if suppliers is None else list(suppliers))
    return int(number)


async def open_owner_tasks(connection: AsyncConnection[Any], limit: int) -> list[OwnerTask]:
    """Read the unfinished tasks in the order of request."""
    return await fetch_structs(connection, _task, _SELECT_ALL_OPEN, limit=limit)


async def open_proposals(
    connection: AsyncConnection[Any],
    suppliers: Collection[str] | None,
    *,
    after: TaskSortKey | None = None,
    limit: int,
) -> list[OwnerTask]:
    """Read the open proposals after a sort key, the oldest first.

    `suppliers` limits them to proposals about their imports.
    """
    at, task_id = after or (None, "")
    return await fetch_structs(
        connection, _task, _SELECT_PROPOSED, **_open_since(suppliers), at=at, after=task_id, limit=limit
    )


async def count_proposals(connection: AsyncConnection[Any], suppliers: Collection[str] | None) -> int:
    """Count the open proposals: all, or those about imports of these suppliers."""
    [(number,)] = await fetch_rows(connection, _COUNT_PROPOSED, **_open_since(suppliers))
    return int(number)


def _open_since(suppliers: Collection[str] | None) -> dict[str, Any]:
    return {"suppliers": None if suppliers is None else list(suppliers), "since": now() - PROPOSAL_LASTS}


async def owner_task(connection: AsyncConnection[Any], task_id: str) -> OwnerTask | None:
    """Read one task; None if it does not exist."""
    return await fetch_struct(connection, _task, _SELECT_ONE, task_id=task_id)


def open_tasks(connection: Connection[Any], *, of_access: bool) -> list[str]:
    """Read the ids of at most 100 unfinished tasks, in rounds of one task for each user.

    With `of_access`, the tasks about keys and users, otherwise all other tasks.
    """
    return [task_id for (task_id,) in rows_of(connection, _SELECT_OPEN, of_access=of_access)]


def _task(**values: Any) -> OwnerTask:
    if values["status"] == "PROPOSED" and values["requested_at"] <= now() - PROPOSAL_LASTS:
        values["status"] = "EXPIRED"
    return OwnerTask(**values | {"arguments": msgspec.json.decode(values["arguments"], type=dict[str, str])})
