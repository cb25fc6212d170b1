"""What a relay or a worker answers to supervisors that ask over HTTP: `/livez` and `/readyz`, as the api does.

Off unless `IMPORTLEDGER_HEALTH_PORT` says where. Only the role's state is told, so it listens on every interface.
"""

import os
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from cli.service.opening import CONNECTING
from cli.service.settings import SettingError
from eventstore.errors import StoreUnavailable, first_line
from eventstore.log.ledger import Ledger
from eventstore.operations.migrate import NEWEST
from redaction.shown import cleaned
from telemetry.supervision import supervision

REQUEST_TIMEOUT_S = 5


class HealthServer(ThreadingHTTPServer):
    """Answers beside the role, in threads that end with the process."""

    daemon_threads = True

    def __init__(self, ledger: Ledger, port: int) -> None:
        super().__init__(("", port), _Answering)
        self._ledger = ledger

    def why_not_ready(self) -> str | None:
        """Why the role cannot do its work at the moment, None when it can."""
        try:
            with self._ledger.connection() as connection:
                query = "SELECT EXISTS (SELECT FROM schema_migrations WHERE name = %s) AS is_there"
                row: Any = connection.execute(query, (NEWEST,)).fetchone()
        except StoreUnavailable as error:
            return f"the database does not answer, or takes no writes ({cleaned(self._reason(error))})"
        if not row["is_there"]:
            return "the schema is older than the code"
        return "; ".join(f"{one.name}: {cleaned(one.error)}" for one in supervision.troubles()) or None

    def _reason(self, error: StoreUnavailable) -> str:
        """Return why the database is away: for a log that is not open yet, why it could not be judged."""
        judging = [one.error for one in supervision.troubles() if one.name == CONNECTING]
        return judging[0] if judging else first_line(error)


class _Answering(BaseHTTPRequestHandler):
    server: HealthServer
    timeout = REQUEST_TIMEOUT_S

    def do_GET(self) -> None:
        match self.path.rstrip("/"):
            case "/livez":
                self._answer(HTTPStatus.OK, {"status": "alive", "pid": os.getpid()})
            case "/readyz":
                why_not = self.server.why_not_ready()
                if why_not is None:
                    self._answer(HTTPStatus.OK, {"status": "ready", "pid": os.getpid()})
                else:
                    said = {"code": "service_unavailable", "detail": f"The role cannot do its work: {why_not}."}
                    self._answer(HTTPStatus.SERVICE_UNAVAILABLE, said)
            case _:
                self._answer(HTTPStatus.NOT_FOUND, {"code": "not_found", "detail": "There are /livez and /readyz."})

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        encoded = msgspec.json.encode(body)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def version_string(self) -> str:
        return "importledger"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
        """Nobody wants a line for each question of a supervisor."""


def answer_health(ledger: Ledger, port: int | None) -> None:
    """Answer on this port from now on, where there is one. Raises SettingError when it is taken."""
    if port is None:
        return
    try:
        server = HealthServer(ledger, port)
    except OSError as error:
        raise SettingError(f"IMPORTLEDGER_HEALTH_PORT: port {port} cannot be used: {error.strerror}.") from None
    supervision.thread("health", server.serve_forever)
