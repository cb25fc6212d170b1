"""The verb `doctor`: one page of what is good, what is not, and what to type."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import psycopg
from psycopg.rows import dict_row

from cli.addresses import database_url
from cli.checkup import CHECKS, WHILE_AWAY
from cli.checkup.finding import Around, Finding, Grade, Looked
from cli.say import say
from cli.service.reach import Unreachable
from cli.service.settings import SettingError, Settings
from eventstore.errors import reason_of
from eventstore.log.recorder import CODE_VERSION
from redaction.shown import shown

_COLOURS: dict[Grade, str] = {"good": "green", "warned": "yellow", "wrong": "bold red"}
_ORDER = tuple(_COLOURS)


@click.command()
@click.option("--backups", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Where backups lie.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def doctor(backups: Path | None, *, as_json: bool) -> int:
    """Look at settings, database, processes, projections, seals and surroundings; exit code 1 when something is wrong.

    The page goes from good to wrong, and names what to type. It changes nothing and shows nothing about persons.
    """
    findings = sorted(examine(backups), key=lambda finding: _ORDER.index(finding.state))
    for finding in findings:
        if as_json:
            say(msgspec.json.encode(finding))
        elif sys.stdout.isatty():
            _show(finding)
        else:
            say(_line(finding))
    wrong = [finding for finding in findings if finding.state == "wrong"]
    if not as_json:
        warned = sum(finding.state == "warned" for finding in findings)
        good = len(findings) - warned - len(wrong)
        say(f"\nimportledger {CODE_VERSION}: {good} good, {warned} warned, {len(wrong)} wrong.")
    return 1 if wrong else 0


def examine(backups: Path | None = None) -> Iterator[Finding]:
    """All findings. What cannot be looked at is a finding as well."""
    try:
        settings = Settings.from_environment()
        settings.refuse_incomplete()
    except SettingError as error:
        yield Finding("settings", "wrong", str(error), "mend the variable")
        return
    yield Finding("settings", "good", "Every setting can be used.")
    try:
        url = database_url()
        connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
    except (SettingError, Unreachable, psycopg.OperationalError) as error:
        yield Finding("database", "wrong", str(error).splitlines()[0], "start it, or mend DATABASE_URL")
        for check_around in WHILE_AWAY:
            yield from check_around(Around(settings=settings, backups=backups))
        return
    with connection:
        version = connection.info.server_version
        yield Finding("database", "good", f"Postgres {version // 10_000}.{version % 10_000} answers.")
        look = Looked(settings=settings, backups=backups, database_url=url, connection=connection)
        for check in CHECKS:
            try:
                yield from check(look)
            except psycopg.Error as error:
                yield Finding(check.__name__, "wrong", f"This cannot be looked at: {reason_of(error)}.")


def _show(finding: Finding) -> None:
    """The same line on a terminal, in colour unless NO_COLOR is set."""
    from rich.console import Console  # it is large, and most verbs show no colour
    from rich.text import Text

    line = Text(_line(finding))
    line.stylize(_COLOURS[finding.state], 0, len(finding.state))
    Console().print(line, soft_wrap=True)


def _line(finding: Finding) -> str:
    todo = f"\n{'':<22}→ {shown(finding.todo)}" if finding.todo else ""
    return f"{finding.state:<7} {finding.check:<13} {shown(finding.says)}{todo}"
