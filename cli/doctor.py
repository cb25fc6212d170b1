"""The verb `doctor`, which checks an installation and names the command or setting that helps."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import psycopg
from psycopg.rows import dict_row

from api.http.languages import JSON
from cli.addresses import database_url
from cli.checkup import database, service
from cli.checkup.finding import CheckInput, DatabaseCheckInput, Finding, Grade, good, wrong
from cli.language import _, translated
from cli.output import lines_option, print_line
from cli.service.reach import Unreachable
from cli.service.settings import SettingError, Settings
from eventstore.errors import reason_of
from eventstore.log.recorder import CODE_VERSION
from redaction.text import escaped
from schemas.sentence import Sentence

_COLOURS: dict[Grade, str] = {"good": "green", "warned": "yellow", "wrong": "bold red"}
_ORDER = tuple(_COLOURS)
_CHECKS: tuple[Callable[[DatabaseCheckInput], Iterator[Finding]], ...] = (
    database.server_version, database.schema, database.durability, database.rights, database.replication,
    database.clock, database.disk, database.wal, database.vacuum, service.roles, service.troubles, service.lag,
    service.projections, service.pending, service.sealing, service.redis, service.documents, service.mail,
    service.backups, service.certificate,
)  # fmt: skip
_WITHOUT_DATABASE: tuple[Callable[[CheckInput], Iterator[Finding]], ...] = (
    database.free_space,
    service.redis,
    service.backups,
    service.certificate,
)
"""Checks that need no database."""


@click.command()
@click.option("--backups", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of backups.")
@lines_option
def doctor(backups: Path | None, *, as_json: bool) -> int:
    """Check settings, database, processes and surroundings.

    Lists the results from good to wrong, with the command or setting that fixes each fault. Changes nothing, and shows
    no personal data. Exit code 1 if a check fails.
    """
    findings = graded(backups)
    for finding in findings:
        if as_json:
            print_line(JSON["en"].encode(finding))
        elif sys.stdout.isatty():
            _show(finding)
        else:
            print_line(_line(finding))
    counts = {grade: sum(finding.state == grade for finding in findings) for grade in _ORDER}
    if not as_json:
        print_line(
            f"\nimportledger {CODE_VERSION}: {', '.join(f'{count} {_(grade)}' for grade, count in counts.items())}."
        )
    return 1 if counts["wrong"] else 0


def graded(backups: Path | None = None) -> list[Finding]:
    """Run all checks, and return their findings from good to wrong."""
    return sorted(examine(backups), key=lambda finding: _ORDER.index(finding.state))


def examine(backups: Path | None = None) -> Iterator[Finding]:
    """Run the checks that are possible, and yield their findings.

    A wrong setting is the only finding. Without a database, only checks run that need no database. If an error of the
    database interrupts a check, the error is a finding.
    """
    try:
        settings = Settings.from_environment()
        settings.refuse_incomplete()
    except SettingError as error:
        sentence = Sentence("{error}", "Eine Einstellung ist falsch: {error}", error=error)
        yield wrong("settings", sentence, Sentence("correct the variable", "Variable korrigieren"))
        return
    yield good("settings", Sentence("Every setting can be used.", "Alle Einstellungen sind gültig."))
    try:
        url = database_url()
        connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
    except (SettingError, Unreachable, psycopg.OperationalError) as error:
        sentence = Sentence("{error}", "Die Datenbank ist nicht erreichbar: {error}", error=str(error).splitlines()[0])
        todo = Sentence("start it, or correct DATABASE_URL", "starten oder DATABASE_URL korrigieren")
        yield wrong("database", sentence, todo)
        for check_around in _WITHOUT_DATABASE:
            yield from check_around(CheckInput(settings=settings, backups=backups))
        return
    with connection:
        version = connection.info.server_version
        sentence = Sentence(
            "Postgres {major}.{minor} answers.",
            "Postgres {major}.{minor} antwortet.",
            major=version // 10_000,
            minor=version % 10_000,
        )
        yield good("database", sentence)
        context = DatabaseCheckInput(settings=settings, backups=backups, database_url=url, connection=connection)
        for check in _CHECKS:
            try:
                yield from check(context)
            except psycopg.Error as error:
                sentence = Sentence(
                    "This cannot be checked: {reason}.",
                    "Das lässt sich nicht prüfen: {reason}.",
                    reason=reason_of(error),
                )
                yield wrong(check.__name__, sentence)


def _show(finding: Finding) -> None:
    """Print a finding on a terminal, in colour unless NO_COLOR is set."""
    from rich.console import Console  # imported here: the library is large, and most verbs print no colour
    from rich.text import Text

    line = Text(_line(finding))
    line.stylize(_COLOURS[finding.state], 0, len(_(finding.state)))
    Console().print(line, soft_wrap=True)


def _line(finding: Finding) -> str:
    todo = f"\n{'':<22}→ {escaped(translated(finding.todo))}" if finding.todo else ""
    return f"{_(finding.state):<7} {finding.check:<13} {escaped(translated(finding.says))}{todo}"
