"""The verbs of support staff whose view looks wrong: what there is, whether it is what the log says, make it anew."""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import click
import psycopg
from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from cli.operator import admin_url
from projections import INLINE
from projections.platform import TABLES
from projections.rebuild import (
    differences,
    head,
    make_schema,
    rebuild_platform,
    rebuild_views,
    rows_that_differ,
    switch,
)

SCRATCH = "beside"
MAX_TOLD = 5


@contextlib.contextmanager
def _administrator() -> Iterator[Connection[Any]]:
    with psycopg.connect(admin_url(), autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        yield connection


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def projections(context: click.Context, as_json: bool) -> None:
    """The views and the platform's tables: their rows, and how far each view has come."""
    if context.invoked_subcommand is not None:
        return
    with _administrator() as connection, connection.cursor(row_factory=dict_row) as cursor:
        reached = head(connection)
        for schema, tables in (("public", INLINE), ("platform", TABLES)):
            for table in tables:
                position = SQL("max(position)" if schema == "public" else "NULL::bigint")
                query = SQL("SELECT count(*) AS rows, {} AS position FROM {}")
                row = cursor.execute(query.format(position, Identifier(schema, table.name))).fetchone()
                assert row is not None
                told = {"name": f"{schema}.{table.name}", "rows": row["rows"], "last_position": row["position"]}
                shown = json.dumps(told | {"log": reached})
                click.echo(shown if as_json else f"{told['name']:<48} {row['rows']:>10}  {row['position'] or '-'}")


@projections.command()
@click.option("--all", "is_all", is_flag=True)
def verify(is_all: bool) -> None:
    """Make every view and platform table anew beside the live ones, and compare. Exit code 1 when any differs."""
    with _administrator() as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")  # log and views as of one moment
        upto = head(connection)
        make_schema(connection, SCRATCH, INLINE)
        _build(connection, upto)
        found = differences(connection, SCRATCH, INLINE)
        for table, count in found.items():
            click.echo(f"{table} differs in {count} rows:")
            schema, name = table.split(".")
            for row in rows_that_differ(connection, SCRATCH, schema, name, limit=MAX_TOLD):
                click.echo(f"  {row}")
        connection.execute("ROLLBACK")
    if found:
        raise click.ClickException(f"{len(found)} tables are not what the log says. `importledger rebuild` mends them.")
    click.echo(f"Every view and platform table is what the log says, up to position {upto}.")


@projections.command()
@click.option("--all", "is_all", is_flag=True)
def rebuild(is_all: bool) -> None:
    """Make every view and platform table anew beside the live ones, catch up, and switch in one transaction.

    Readers notice nothing. It may be cancelled or killed at any moment: then everything stays as it was.
    """
    began = time.monotonic()
    with _administrator() as connection:
        upto = head(connection)
        make_schema(connection, SCRATCH, INLINE)
        try:
            _build(connection, upto)
            reached = switch(connection, SCRATCH, INLINE, upto=upto)
        finally:
            connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(SCRATCH)))
    rate = reached / max(time.monotonic() - began, 0.001)
    click.echo(f"Everything is made anew up to position {reached}, {rate:,.0f} events a second.")


def _build(connection: Connection[Any], upto: int) -> None:
    """Into the scratch schema, with a bar on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f} events"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as progress:
        views = progress.add_task("views   ", total=upto)
        rebuild_views(
            connection, INLINE, schema=SCRATCH, upto=upto, progress=lambda n: progress.update(views, completed=n)
        )
        platform = progress.add_task("platform", total=upto)
        rebuild_platform(
            connection, schema=SCRATCH, upto=upto, progress=lambda n: progress.update(platform, completed=n)
        )
