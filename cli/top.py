"""The verb `top`: what the service does now. Live in a terminal, a line every so often elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
import msgspec
import psycopg
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from cli.addresses import database_url
from cli.say import say
from cli.tell import text_of
from discretion.shown import shown
from eventstore.clock import now
from projections import FOLLOWING
from projections.vitals import Lag, Vitals, read_vitals

MAX_SUPPLIERS = 10
SNAPSHOT_S = 1.0
"""How far the two looks are apart that one snapshot's rates are made of."""
_SESSION = "SET statement_timeout = '2s'; SET lock_timeout = '1s'; SET TIME ZONE 'UTC'"


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """What is told at a time. Rates are of the time since the look before; null at the first."""

    at: datetime
    database_up: bool
    events: int | None
    events_per_s: float | None
    ended_per_s: float | None
    oldest_pending_s: float | None
    imports: dict[str, int]
    suppliers: dict[str, dict[str, int]]
    """The busiest, by what they have pending."""
    lags: dict[str, Lag]
    workers: int
    relays: int
    projectors: int
    parked_streams: int
    log_lock_waiters: int | None
    connections: int | None
    mails_waiting: int | None
    long_jobs: dict[str, tuple[int, int]]
    """What all workers do together: parts done, and of how many."""


_WAITING = ("PENDING", "IN_PROGRESS")


def glance(seen: Vitals | None, before: Vitals | None, at: datetime) -> Glance:
    """What is to be told of a look, and of what has changed since the one before. Pure."""
    away = seen is None
    seen = seen or Vitals()
    states: Counter[str] = Counter()
    suppliers: dict[str, dict[str, int]] = {}
    for supplier, state, number in seen.imports:
        states[state] += number
        suppliers.setdefault(supplier, {})[state] = number
    busiest = sorted(suppliers, key=lambda one: (-sum(suppliers[one].get(s, 0) for s in _WAITING), one))[:MAX_SUPPLIERS]
    return Glance(
        at=seen.at or at,
        database_up=not away,
        events=seen.head,
        events_per_s=_rate(seen, before, seen.head, before.head if before else None),
        ended_per_s=_rate(seen, before, _ended(seen), _ended(before) if before else None),
        oldest_pending_s=seen.oldest_pending_s,
        imports=dict(sorted(states.items())),
        suppliers={one: suppliers[one] for one in busiest},
        lags=seen.lags,
        workers=seen.holders.get("worker", 0),
        relays=seen.holders.get("relay", 0),
        projectors=seen.holders.get("projector", 0),
        parked_streams=sum(seen.parked.values()),
        log_lock_waiters=seen.log_lock_waiters,
        connections=seen.connections,
        mails_waiting=seen.waiting_mails,
        long_jobs=seen.long_jobs,
    )


def _ended(seen: Vitals) -> int:
    return sum(number for _, state, number in seen.imports if state not in _WAITING)


def _rate(seen: Vitals, before: Vitals | None, now: int | None, then: int | None) -> float | None:
    if before is None or seen.at is None or before.at is None or now is None or then is None or seen.at <= before.at:
        return None
    return round((now - then) / (seen.at - before.at).total_seconds(), 1)


def line_of(told: Glance) -> str:
    """A snapshot as one plain line."""
    if not told.database_up:
        return f"{text_of(told.at)}  the database is away"
    lags = " ".join(f"{name.replace(' ', '-')}={lag.events}" for name, lag in sorted(told.lags.items()))
    states = " ".join(f"{state}={number}" for state, number in told.imports.items())
    jobs = [f"{name.replace(' ', '-')}={done}/{parts}" for name, (done, parts) in told.long_jobs.items()]
    parts = (
        text_of(told.at),
        f"events={text_of(told.events)} events/s={text_of(told.events_per_s)} ended/s={text_of(told.ended_per_s)}",
        states or "no imports",
        f"oldest={text_of(told.oldest_pending_s)} workers={told.workers} parked={told.parked_streams}",
        *([f"long jobs: {' '.join(jobs)}"] if jobs else []),
        f"behind: {lags}",
    )
    return "  ".join(parts)


def page_of(told: Glance) -> Group | str:
    """A snapshot as tables."""
    if not told.database_up:
        return f"{text_of(told.at)}  The database is away; this goes on when it is back."
    figures = Table(title=f"Import ledger, {text_of(told.at)}", show_header=False, expand=True)
    for name, value in (
        ("events in the log", told.events), ("events a second", told.events_per_s),
        ("imports ended a second", told.ended_per_s), ("oldest import that waits, s", told.oldest_pending_s),
        ("workers", told.workers), ("relay", told.relays), ("projector", told.projectors),
        ("parked streams", told.parked_streams), ("wait for the log's lock", told.log_lock_waiters),
        ("connections", told.connections), ("e-mails that wait", told.mails_waiting),
    ):  # fmt: skip
        figures.add_row(name, text_of(value))
    for name, (done, parts) in told.long_jobs.items():
        figures.add_row(f"{name}, parts done", f"{done:,} of {parts:,}")
    behind = Table("behind the log", "events", "seconds", expand=True)
    for name, lag in sorted(told.lags.items()):
        behind.add_row(name, f"{lag.events:,}", f"{lag.seconds:.1f}")
    states = sorted(told.imports)
    imports = Table("supplier", *states, expand=True)
    for supplier, numbers in told.suppliers.items():
        imports.add_row(shown(supplier), *(f"{numbers.get(state, 0):,}" for state in states))
    imports.add_row("all", *(f"{told.imports[state]:,}" for state in states))
    return Group(figures, behind, imports)


@click.command()
@click.option("--every", "every_s", default=2.0, show_default=True, type=click.FloatRange(0.2, 3600), help="Seconds.")
@click.option("--times", type=click.IntRange(min=1), help="End after so many looks.")
@click.option("--json", "as_json", is_flag=True, help="One snapshot as a JSON object.")
def top(every_s: float, times: int | None, *, as_json: bool) -> None:
    """What the service does now: rates, imports by state, who is behind. Live in a terminal, else a line a look.

    Ctrl-C ends it. It changes nothing and shows nothing about persons.
    """
    looks = _looks(database_url(), SNAPSHOT_S if as_json else every_s)
    try:
        if as_json:
            next(looks)
            say(msgspec.json.encode(next(looks)))
        elif sys.stdout.isatty():
            with Live(console=Console(), screen=times is None, auto_refresh=False) as live:
                for _, told in zip(_counted(times), looks, strict=False):
                    live.update(page_of(told), refresh=True)
        else:
            for _, told in zip(_counted(times), looks, strict=False):
                say(line_of(told))
    except KeyboardInterrupt:
        pass


def _counted(times: int | None) -> Iterator[int]:
    count = 0
    while times is None or count < times:
        yield count
        count += 1


def _looks(url: str, every_s: float) -> Iterator[Glance]:
    """Looks without an end; while the database is away, that is what they tell."""
    names, before = tuple(projection.name for projection in FOLLOWING), None
    connection: psycopg.Connection[Any] | None = None
    try:
        while True:
            seen = None
            try:
                if connection is None or connection.closed:
                    connection = psycopg.connect(url, autocommit=True, connect_timeout=2)
                    connection.execute(_SESSION)
                seen = read_vitals(connection, names, with_sizes=False)
            except psycopg.Error:
                if connection is not None:
                    connection.close()
            yield glance(seen, before, now())
            before = seen
            time.sleep(every_s)
    finally:
        if connection is not None:
            connection.close()
