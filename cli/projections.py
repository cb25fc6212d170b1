"""The verb `projections`, with subcommands that verify and repair views."""

import time
from collections.abc import Sequence
from typing import Any

import click
import msgspec
from psycopg import Connection

from cli.addresses import admin_url
from cli.history import market_stream
from cli.known import require_import, require_stream
from cli.language import N_, _, counted, translated
from cli.operator import caused_by, open_ledger
from cli.output import ShortText, json_option, lines_option, print_line, print_result, progress_bar, text_of
from cli.proposing import is_listed, is_proposed
from eventstore.clock import now
from eventstore.log.columns import log_head
from projections import PROJECTIONS
from projections.auxiliary.typed_reasons import MAX_REASON
from projections.queries.history import account_streams
from projections.versions.build import administrator
from projections.versions.compare import Comparison, Difference, compare, side_by_side
from projections.versions.compare import heal as heal_streams
from projections.versions.compare import verify as verify_projection
from projections.versions.overview import VersionStanding, version_standings
from projections.versions.projection import Projection
from projections.versions.versions import (
    accept_parked,
    build_version,
    live_version,
    parked_streams,
    switch_if_needed,
    version_lock,
)

MAX_SHOWN = 5
JOBS = 2
_BY_NAME = {projection.name: projection for projection in PROJECTIONS}


class Named(click.ParamType[Projection]):
    """Argument that is the name of a projection."""

    name = "NAME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Projection:
        if value not in _BY_NAME:
            sentence = _("There is no projection {name!r}, only {names}.", name=value, names=", ".join(_BY_NAME))
            self.fail(sentence, param, ctx)
        return _BY_NAME[value]


_name = click.argument("projection", metavar="NAME", type=Named())
_optional_name = click.argument("projection", metavar="NAME", type=Named(), required=False)
_all = click.option("--all", "is_all", is_flag=True, help="All projections, one after the other.")


@click.group(invoke_without_command=True)
@lines_option
@click.pass_context
def projections(context: click.Context, as_json: bool) -> None:
    """Show the versions of all projections.

    Each line shows a version of a projection: position, lag, state, estimated rows, parked streams and last
    verification.
    """
    if context.invoked_subcommand is not None:
        return
    with administrator(admin_url()) as connection:
        versions = version_standings(connection, PROJECTIONS)
    if not as_json:
        print_line(_LINE.format(*map(_, _HEADINGS)))
    for version in versions:
        lag_s = max(0.0, (now() - version.lag_since).total_seconds()) if version.lag_since else 0.0
        result = {**msgspec.to_builtins(version), "lag_events": version.lag, "lag_s": lag_s}
        shown = {name: value for name, value in result.items() if name not in ("lag", "lag_since", "definition")}
        print_result(_line(version, lag_s), shown, as_json=as_json)


_HEADINGS = (
    N_("name"), N_("version"), N_("position"), N_("lag"), N_("state"), N_("rows"), N_("parked"), N_("verified"),
)  # fmt: skip
_LINE = "{:<18} {:>7} {:>12}  {:<18} {:<9} {:>10} {:>6}  {}"


def _line(version: VersionStanding, lag_s: float) -> str:
    lag = f"{version.lag:,} ({lag_s:.1f} s)" if version.lag else "0"
    rows = "-" if version.rows is None else f"{version.rows:,}"
    checked = text_of(version.verified_at)
    if version.verified_at:
        checked += f" {counted(version.differences, 'differ', 'differ')}" if version.differences else " ✓"
    position, state = f"{version.position:,}", _(version.state)
    return _LINE.format(version.name, version.version, position, lag, state, rows, version.parked, checked)


@projections.command()
@_optional_name
@_all
@click.option("--show", default=MAX_SHOWN, show_default=True, help="Differing rows to show.")
@json_option
def verify(projection: Projection | None, is_all: bool, show: int, as_json: bool) -> None:
    """Compare a projection with the log.

    Builds NAME again beside the live version, as of one position of the log, and shows the first rows that differ. Exit
    code 1 if rows differ.
    """
    if (projection is None) != is_all:
        raise click.UsageError(_("Name one projection, or give --all."))
    wrong = 0
    with administrator(admin_url()) as connection:
        for view in PROJECTIONS if projection is None else [projection]:
            with (
                version_lock(connection, view),
                progress_bar("events", title=view.name, total=log_head(connection)) as progress,
            ):
                comparison = verify_projection(admin_url(), connection, view, limit=show, progress=progress)
            wrong += comparison.count > 0
            streams = counted(comparison.parked, "stream is", "streams are")
            parked = f", {_('{streams} parked', streams=streams)}" if comparison.parked else ""
            result = {"name": view.name, **_counts(comparison), "parked": comparison.parked, "first": comparison.first}
            sentence = f"{view.name}: {_summary(comparison) if comparison.count else _('matches the log')}{parked}"
            print_result(sentence, result, as_json=as_json)
            for difference in () if as_json else comparison.first:
                _print_difference(difference)
    if wrong:
        differ = counted(wrong, "projection differs", "projections differ")
        raise click.ClickException(
            _("{projections} from the log. `projections rebuild` repairs them.", projections=differ)
        )


@projections.command()
@_optional_name
@_all
@click.option("--outdated", "is_outdated", is_flag=True, help="Projections whose definition an upgrade has changed.")
@click.option("--jobs", default=JOBS, show_default=True, type=click.IntRange(1, 64), help="Processes that build it.")
@click.option("--no-switch", is_flag=True, help="No switch: the new version stays beside the live one.")
@json_option
def rebuild(
    projection: Projection | None, is_all: bool, is_outdated: bool, jobs: int, no_switch: bool, as_json: bool
) -> None:
    """Rebuild a projection beside the live version, and switch.

    Builds a new version of NAME, applies later events, compares the new version with the log, and switches in one
    transaction, without a pause for readers and writers. If `rebuild` is cancelled or killed, the live version stays
    unchanged. `switch` can make the old version live again for seven days. A rebuild sends no e-mail again.
    """
    if (projection is not None) + is_all + is_outdated != 1:
        raise click.UsageError(_("Name one projection, or give --all or --outdated."))
    chosen: Sequence[Projection] = PROJECTIONS if projection is None else [projection]
    with administrator(admin_url()) as connection:
        if is_outdated:
            chosen = [view for view in PROJECTIONS if live_version(connection, view.name).is_outdated(view)]
        for view in chosen:
            with version_lock(connection, view):
                no_switch = no_switch or is_listed("projection_switch")
                _rebuild(connection, view, jobs, no_switch=no_switch, as_json=as_json)
    if not chosen and not as_json:
        print_line(_("No projection is outdated."))


def _rebuild(connection: Connection[Any], projection: Projection, jobs: int, *, no_switch: bool, as_json: bool) -> None:
    total, began, name = log_head(connection), time.monotonic(), projection.name
    with progress_bar("events", title=name, total=total) as progress:
        built = build_version(admin_url(), connection, projection, jobs=jobs, progress=progress)
    took_s = max(time.monotonic() - began, 0.001)
    parked = parked_streams(connection, name, built.version)
    result = {"name": name, "version": built.version, "events": total, "seconds": took_s, "parked": len(parked)}
    if not as_json:
        sentence = _(
            "{name}: version {version} built, {events}, {rate:,.0f} a second",
            name=name, version=built.version, events=counted(total, "event"), rate=total / took_s,
        )  # fmt: skip
        print_line(sentence)
        if parked:
            are = counted(len(parked), "stream could not be projected and is", "streams could not be projected and are")
            print_line(_("{name}: {streams} parked: {first} …", name=name, streams=are, first=text_of(parked[0])))
    previous, summary = live_version(connection, name), _("the previous version had another definition")
    if not previous.is_outdated(projection):
        # Compare as of one moment: the new version applies all events up to the live version's position, in a
        # transaction that is rolled back.
        with side_by_side(admin_url(), connection, projection, built):
            comparison = compare(connection, projection, projection.home, built.schema, limit=0)
        result |= _counts(comparison)
        summary = _summary(comparison)
    if no_switch:
        sentence = _(
            "{name}: {summary}; `projections switch {name} --to {version}` makes it live",
            name=name, summary=summary, version=built.version,
        )  # fmt: skip
        print_result(sentence, result | {"is_switched": False}, as_json=as_json)
        return
    position = switch_if_needed(connection, projection, built.version)["position"]
    result |= {"is_switched": True, "position": position, "former": previous.version}
    sentence = _(
        "{name}: {summary}; switched at position {position:,}, version {version} is kept",
        name=name, summary=summary, position=position, version=previous.version,
    )  # fmt: skip
    print_result(sentence, result, as_json=as_json)


@projections.command()
@_name
@click.option("--to", "version", type=int, required=True, help="Version to make live.")
@click.option(
    "--reason", default="", type=ShortText(MAX_REASON),
    help="Reason of a proposal, kept in the log: no personal data.",
)  # fmt: skip
@json_option
def switch(projection: Projection, version: int, reason: str, as_json: bool) -> None:
    """Make another version of a projection live.

    The other version of NAME is a new version, or the previous version, which is kept for seven days.
    """
    arguments = {"name": projection.name, "version": str(version)}
    with open_ledger() as ledger:
        if is_proposed(ledger, "projection_switch", arguments, reason, by=caused_by(), as_json=as_json):
            return
    with administrator(admin_url()) as connection, version_lock(connection, projection):
        result = {"name": projection.name} | switch_if_needed(connection, projection, version)
    sentence = N_("{name}: version {version} is live already.")
    if result["is_changed"]:
        sentence = N_("{name}: version {version} is live at position {position:,}, version {former} is kept")
    print_result(_(sentence, **result), result, as_json=as_json)


@projections.command()
@click.argument("stream")
@json_option
def accept(stream: str, as_json: bool) -> None:
    """Accept a parked stream, and stop reporting it.

    After this, projections leave out the unreadable events of STREAM.
    """
    with administrator(admin_url()) as connection:
        names = accept_parked(connection, stream, caused_by())
    if not names:
        raise click.ClickException(
            _("No projection leaves {stream} out: there is nothing to accept.", stream=text_of(stream))
        )
    sentence = _(
        "{stream} is left out of {names} permanently, and is no longer reported.",
        stream=text_of(stream), names=", ".join(names),
    )  # fmt: skip
    print_result(sentence, {"stream": stream, "projections": names}, as_json=as_json)


@projections.command()
@click.argument("supplier")
@click.argument("external", required=False)
@json_option
def heal(supplier: str, external: str | None, as_json: bool) -> None:
    """Rebuild all views of one account, and its parked streams.

    EXTERNAL is the external account number at SUPPLIER.

    Instead of SUPPLIER and EXTERNAL, name a record of the market: participant/ORGANISATION/CODE or
    price-sheet/ORGANISATION/CODE/DOCUMENT. Records of the operator have no organisation: participant//CODE.
    """
    failed, stream = 0, market_stream(supplier) if external is None else ""
    with administrator(admin_url()) as connection:
        if external is None:
            require_stream(connection, stream)
            streams = [stream]
        else:
            require_import(connection, supplier, external)
            streams = account_streams(connection, supplier, external)
        for projection in PROJECTIONS:
            repaired = heal_streams(connection, projection, streams)
            failed += repaired.is_parked
            result = {"name": repaired.name, "says": repaired.says, "is_parked": repaired.is_parked}
            print_result(f"{repaired.name}: {translated(repaired.says)}", result, as_json=as_json)
    if failed:
        projections = counted(failed, "projection")
        raise click.ClickException(_("{projections} could not be updated.", projections=projections))


def _counts(comparison: Comparison) -> dict[str, int]:
    return {"changed": comparison.changed, "added": comparison.added, "removed": comparison.removed}


def _summary(comparison: Comparison) -> str:
    return _(
        "{rows} changed, {added:,} added, {removed:,} removed",
        rows=counted(comparison.changed, "row"), added=comparison.added, removed=comparison.removed,
    )  # fmt: skip


def _print_difference(difference: Difference) -> None:
    key = " ".join(f"{name}={text_of(value)}" for name, value in difference.key.items())
    before, after = difference.before, difference.after
    if before is None or after is None:
        text = _("only in the log") if before is None else _("only in the table")
    else:
        text = "; ".join(
            f"{name} {_('table:')} {text_of(before[name])} {_('log:')} {text_of(after[name])}"
            for name in difference.columns
        )
    click.echo(f"  {difference.table} {key}: {text}")
    if difference.cause:
        click.echo(f"    {translated(difference.cause)}")
