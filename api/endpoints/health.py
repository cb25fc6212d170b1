"""Checks for load balancers and supervisors: the process is alive, and it can do its work."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from psycopg import AsyncConnection, ProgrammingError
from starlette.requests import Request
from starlette.responses import Response

from api.http.database import SchemaMissing, read
from api.http.errors import RETRY_STOPPED
from api.http.responses import json_response
from api.http.status_codes import FAILING, INTAKE_STOPPED, STARTING, STOPPED, ApiError
from api.operation import SERVICE, operation
from api.services import Endpoint, Services
from eventstore.errors import StoreUnavailable, first_line
from eventstore.log.intake_stop import IS_COMPARED, read_intake_stop
from eventstore.log.store_errors import is_disk_full
from eventstore.operations.fitness import REPLICATED
from eventstore.operations.migrate import NEWEST
from projections.auxiliary.troubles import ReportedTrouble, read_troubles
from redaction.text import cleaned
from schemas.base import Wire
from schemas.sentence import Sentence

MIN_FREE_BYTES = 16 * 2**20
"""Least free bytes of a disk: one segment of Postgres' write-ahead log.

With less free space, an append may fail at any time.
"""

_NO_SCHEMA = Sentence(
    "The schema is missing: `importledger migrate` creates it.", "Das Schema fehlt: `importledger migrate` legt es an."
)
_OLD_SCHEMA = Sentence("The schema is older than the code.", "Das Schema ist älter als das Programm.")
_NO_WRITER = Sentence(
    "The log's writer in this process is not running.",
    "Der Schreibdienst des Protokolls läuft in diesem Prozess nicht.",
)
_NO_STANDBY = Sentence("No synchronous standby is connected.", "Kein synchroner Standby-Server ist verbunden.")
_DISK_FULL = Sentence("The disk of the data folder is full.", "Die Festplatte des Datenordners ist voll.")
_DATABASE_FULL = Sentence("The disk of the database is full.", "Die Festplatte der Datenbank ist voll.")
_NOT_COMPARED = Sentence(
    "No accounts are accepted before the relay has compared the log with its checkpoints.",
    "Vor dem Vergleich des Protokolls mit seinen Siegeln werden keine Konten angenommen.",
)


class Health(Wire, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Answer of /livez (the process is alive) and /readyz (a create would succeed). Some installations add a field."""

    status: Literal["alive", "ready"]
    """alive or ready (Status)."""
    pid: int
    """Process that answers (Prozessnummer)."""
    troubles: list[str] | UnsetType = UNSET
    """Work that fails while accounts are accepted, such as a relay whose Redis does not answer (Störungen)."""


class HealthChecks(Endpoint):
    """The handlers of /livez and /readyz."""

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._needs_standby = services.durability == "replicated"
        self._roles_file = services.roles_file
        self._extra_fields = {"sandbox": True} if services.is_sandbox else {}

    @operation("GET", "/livez/", SERVICE, answers={200: Health})
    async def read_liveness(self, request: Request) -> Response:
        """Check that the process is alive."""
        return json_response({"status": "alive", "pid": os.getpid()})

    @operation("GET", "/readyz/", SERVICE, answers={200: Health}, refusals=(503,))
    async def read_readiness(self, request: Request) -> Response:
        """Check that a create would succeed."""
        try:
            why_not = await read(self._pool, self._why_not)
        except (ProgrammingError, SchemaMissing):
            why_not = _NO_SCHEMA
        except StoreUnavailable as error:
            reason = cleaned(first_line(error))
            no_answer = Sentence(
                f"The database does not answer, or accepts no writes: {reason}.",
                f"Die Datenbank antwortet nicht oder lässt keine Schreibzugriffe zu: {reason}.",
            )
            why_not = _DATABASE_FULL if is_disk_full() else no_answer
        if why_not is INTAKE_STOPPED:
            raise ApiError(503, why_not, code=STOPPED, headers=RETRY_STOPPED)
        if why_not is not None:
            code = STARTING if why_not is _NOT_COMPARED else ""
            raise ApiError(503, why_not, code=code, headers={"Retry-After": "1"})
        if failing_at_start := failing_roles(self._roles_file):
            named = ", ".join(failing_at_start)
            detail = Sentence(
                f"A role fails at every start: {named}. Its last line is in the service's log.",
                f"Eine Rolle bricht bei jedem Start ab: {named}. Ihre letzte Zeile steht in der Protokolldatei.",
            )
            raise ApiError(503, detail, headers={"Retry-After": "10"})
        lasting = await read(self._pool, _lasting)
        if self._roles_file is not None and (
            failing := _named([trouble for trouble in lasting if not trouble.is_waiting])
        ):
            listed = "; ".join(failing)
            detail = Sentence(f"A part of the service fails: {listed}", f"Ein Teil des Dienstes fällt aus: {listed}")
            raise ApiError(503, detail, code=FAILING, headers={"Retry-After": "10"})
        troubles = {"troubles": _named(lasting)} if lasting else {}
        return json_response({"status": "ready", "pid": os.getpid()} | self._extra_fields | troubles)

    async def _why_not(self, connection: AsyncConnection[Any]) -> Sentence | None:
        """Return the reason why a create would be refused, None if it would succeed."""
        if not self._ledger.is_writing:
            return _NO_WRITER
        if self._roles_file is not None and is_full(connection.info.host, self._roles_file.parent):
            return _DISK_FULL
        if is_disk_full():
            return _DATABASE_FULL
        cursor = await connection.execute("SELECT FROM schema_migrations WHERE name = %s", (NEWEST,))
        if cursor.rowcount != 1:
            return _OLD_SCHEMA
        if await read_intake_stop(connection):
            return INTAKE_STOPPED
        if not (row := await (await connection.execute(IS_COMPARED)).fetchone()) or not row[0]:
            return _NOT_COMPARED
        if self._needs_standby:
            row = await (await connection.execute(REPLICATED)).fetchone()
            if not (row and row[0]):
                return _NO_STANDBY
        return None


async def _lasting(connection: AsyncConnection[Any]) -> list[ReportedTrouble]:
    """Return the troubles that have lasted long enough to be reported."""
    return [trouble for trouble in await read_troubles(connection) if trouble.is_lasting]


def _named(troubles: Sequence[ReportedTrouble]) -> list[str]:
    """Return each trouble once, even if several processes have it."""
    return list(dict.fromkeys(f"{trouble.name}: {trouble.error}" for trouble in troubles))


def is_full(host: str, folder: Path) -> bool:
    """Return True if the database runs here (`host` is the path of a socket) and the disk of its folder is full."""
    try:
        return host.startswith("/") and shutil.disk_usage(folder).free < MIN_FREE_BYTES
    except OSError:
        return False


def failing_roles(file: Path | None) -> dict[str, str]:
    """Return the roles that fail at every start, each with its last log line. Empty without a readable file."""
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}
