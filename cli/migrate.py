"""The verb `migrate`, which migrates the database, and shows the plan first."""

from typing import Any

import click
import msgspec
import psycopg

from cli.addresses import admin_url, database_url
from cli.language import _, translated
from cli.output import json_option, print_line, print_result
from cli.service.reach import require_answer
from cli.service.roles import role_settings
from eventstore.operations.migrate import NEWEST, Pending, applied_migrations, pending_migrations, role_of
from projections.versions.install import ProjectionChange, migrate_all, projection_changes

NOTHING_TO_DO, CAN_BE_ROLLED, MUST_STOP = 0, 2, 3
"""Exit codes of `--check`. Exit code 1 means an error, as for every verb."""


class Plan(msgspec.Struct, frozen=True):
    """Plan of a migration to this version."""

    schema: str | None
    pending: list[Pending]
    projections: list[ProjectionChange]

    @property
    def why_not_rolled(self) -> list[str]:
        """Reasons to stop processes of the previous version; empty if they may continue during the migration."""
        reasons = [
            f"{migration.name}: {migration.why_not_rolled}" for migration in self.pending if migration.why_not_rolled
        ]
        rebuilt = [view.says for view in self.projections if not view.can_be_rolled]
        return reasons + [f"{says}, and processes of the previous version do not write to it" for says in rebuilt]

    @property
    def has_work(self) -> bool:
        return bool(self.pending or [view for view in self.projections if view.change != "outdated"])

    @property
    def exit_code(self) -> int:
        return NOTHING_TO_DO if not self.has_work else MUST_STOP if self.why_not_rolled else CAN_BE_ROLLED

    def as_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        reasons = self.why_not_rolled
        return {
            **msgspec.to_builtins(self),
            "target": NEWEST,
            "is_up_to_date": not self.has_work,
            "can_be_rolled": not reasons,
            "why_not_rolled": reasons,
        }

    def lines(self) -> list[str]:
        """Return the plan as lines of text."""
        views = [f"  {translated(view.says)}" for view in self.projections]
        if not self.has_work:
            sentence = _("The database has the schema of this version ({name}): there is nothing to do.", name=NEWEST)
            return [sentence, *views]
        before = self.schema or _("none")
        result = [_("`importledger migrate` changes the schema from {before} to {after}:", before=before, after=NEWEST)]
        result += [f"  {migration.name}" for migration in self.pending] + views
        if not self.why_not_rolled:
            return [
                *result,
                _("A rolling upgrade is possible: migrate while the service runs, then replace processes one by one."),
            ]
        is_api_too = any(view.change == "new" and not view.can_be_rolled for view in self.projections)
        sentence = _(
            "A rolling upgrade is not possible: stop {processes} first, and start them with the new version "
            "afterwards.",
            processes=_("api, relay and workers") if is_api_too else _("relay and workers"),
        )
        return [*result, sentence] + [f"  {translated(reason)}" for reason in self.why_not_rolled]


@click.command()
@click.option("--check", "is_check", is_flag=True, help="Plan of the migration, without changes.")
@json_option
def migrate(is_check: bool, as_json: bool) -> int:
    """Migrate the database to the schema of this version.

    Shows the plan, then migrates the database of DATABASE_ADMIN_URL, or of the service on the data folder. Creates the
    database roles importledger_api, importledger_worker and importledger_relay if they are missing, and grants the
    rights of all three to the role of DATABASE_URL.

    The service may run during a migration, unless --check names processes that must be stopped. The migration waits for
    a lock at most 0.4 s at a time, up to 100 times, so that the service can accept accounts meanwhile. If `migrate` is
    killed, run it again.

    Exit codes of --check: 0 nothing to do, 2 processes of the previous version may continue, 3 some processes of the
    previous version must be stopped. Exit code 1 is an error, such as a database that is newer than this version.
    """
    settings = role_settings(is_role=False)
    owner = settings.database_admin_url or settings.database_url
    url = settings.database_url or owner
    if owner is None or url is None:
        url, owner = database_url(), admin_url()
    else:
        named = "DATABASE_URL" if settings.database_admin_url is None else "DATABASE_ADMIN_URL"
        require_answer(owner, named, needs_schema=False)  # the service's role may not have its rights yet
    with psycopg.connect(owner, autocommit=True) as connection:
        plan = plan_of(connection)
    if is_check:
        print_result("\n".join(plan.lines()), plan.as_json(), as_json=as_json)
        return plan.exit_code
    if plan.has_work and not as_json:
        print_line("\n".join(plan.lines()))
    applied = migrate_all(owner, service_role=role_of(url))
    sentence = "\n".join(_("applied {name}", name=name) for name in applied) or _("The schema is up to date.")
    print_result(sentence, {"applied": applied, "plan": plan.as_json()}, as_json=as_json)
    return 0


def plan_of(connection: psycopg.Connection[Any]) -> Plan:
    """Return the plan of a migration. Changes nothing. Raises MigrationError if the database is newer."""
    pending = pending_migrations(connection)
    return Plan(max(applied_migrations(connection), default=None), pending, projection_changes(connection))
