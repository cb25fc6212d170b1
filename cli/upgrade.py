"""The verb that tells what this version will do to the database: `upgrade-check`, and the same words for `migrate`."""

from typing import Any

import click
import msgspec
import psycopg

from cli.addresses import admin_url
from cli.reach import reach
from cli.settings import Settings
from cli.tell import json_option, tell
from eventstore.operations.migrate import NEWEST, known_migrations
from eventstore.operations.upgrade import Pending, pending_migrations
from projections.versioning.upgrading import ProjectionChange, projection_changes

NOTHING_TO_DO, CAN_BE_ROLLED, MUST_STOP = 0, 2, 3
"""Exit codes; 1 is for what could not be told, as with every verb."""


class Plan(msgspec.Struct, frozen=True):
    """What `migrate` of this version does to a database."""

    schema: str | None
    pending: list[Pending]
    projections: list[ProjectionChange]

    @property
    def why_not_rolled(self) -> list[str]:
        """Why processes of the version before cannot go on beside this one; nothing where they can."""
        reasons = [f"{one.name}: {one.why_not_rolled}" for one in self.pending if one.why_not_rolled]
        anew = [one.says for one in self.projections if not one.can_be_rolled]
        return reasons + [f"{says}, and processes of the version before do not write to it" for says in anew]

    @property
    def has_work(self) -> bool:
        return bool(self.pending or [one for one in self.projections if one.change != "outdated"])

    @property
    def seconds(self) -> float:
        return round(sum(one.seconds for one in self.pending) + sum(one.seconds for one in self.projections), 3)

    @property
    def exit_code(self) -> int:
        return NOTHING_TO_DO if not self.has_work else MUST_STOP if self.why_not_rolled else CAN_BE_ROLLED

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = msgspec.to_builtins(self)
        return {
            **told,
            "target": NEWEST,
            "is_up_to_date": not self.has_work,
            "estimated_seconds": self.seconds,
            "can_be_rolled": not self.why_not_rolled,
            "why_not_rolled": self.why_not_rolled,
        }

    def lines(self) -> list[str]:
        """The same in words, a line each."""
        if not self.has_work:
            told = [f"The database is as this version needs it ({NEWEST}): `importledger migrate` has nothing to do."]
            return told + [f"  {one.says}" for one in self.projections]
        told = [f"`importledger migrate` takes the database from {self.schema or 'nothing'} to {NEWEST}:"]
        for one in self.pending:
            told.append(f"  {one.name}: {one.summary or 'no summary'}")
            told += [f"    {does}" for does in one.does]
            told += [f"    locks {lock.table} ({lock.mode}); {_waits(lock.blocks)}" for lock in one.locks]
        told += [f"  {one.says}" for one in self.projections]
        told.append(f"Estimated from measured rates and the tables' sizes: {duration(self.seconds)}.")
        if self.why_not_rolled:
            is_api_too = any(one.change == "new" and not one.can_be_rolled for one in self.projections)
            told.append(
                f"It cannot be rolled: stop {'api, ' if is_api_too else ''}relay and workers before,"
                " and start them with the new version."
            )
            told += [f"  {reason}" for reason in self.why_not_rolled]
        else:
            told.append("It can be rolled: migrate while the service runs, then replace one process after the other.")
        return told


def plan_of(connection: psycopg.Connection[Any]) -> Plan:
    """What `migrate` would do. Changes nothing. Raises MigrationError where the database is newer."""
    pending = pending_migrations(connection)
    applied = known_migrations(connection)
    return Plan(max(applied, default=None), pending, projection_changes(connection))


def duration(seconds: float) -> str:
    """An estimate in words, no finer than it is."""
    if seconds < 1:
        return "less than a second"
    if seconds < 120:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 7200 else f"about {seconds / 3600:.1f} h"


def _waits(blocks: str) -> str:
    return "nobody waits" if blocks == "nothing" else f"{blocks} wait, for the time-out at most, then it is tried again"


@click.command("upgrade-check")
@json_option
def upgrade_check(as_json: bool) -> int:
    """What this version will do to the database, how long, and whether it can be rolled. Changes nothing.

    Exit code 0: nothing to do. 2: something is, and processes of the version before may go on beside it. 3: something
    is, and they must be stopped. 1: it could not be told, or the database is newer than this version.
    """
    settings = Settings.from_environment()
    if settings.database_admin_url or settings.database_url:
        named = "DATABASE_ADMIN_URL" if settings.database_admin_url else "DATABASE_URL"
        url = reach(settings.database_admin_url or settings.database_url or "", named, needs_schema=False)
    else:
        url = admin_url()
    with psycopg.connect(url, autocommit=True) as connection:
        plan = plan_of(connection)
    tell("\n".join(plan.lines()), plan.as_json(), as_json=as_json)
    return plan.exit_code
