"""Health of a relay or worker over HTTP: `/livez` and `/readyz`, with the answers of the api.

Answers only if `IMPORTLEDGER_HEALTH_PORT` is set, on every interface, because the answers show only the role's state.
"""

import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import psycopg
from psycopg.errors import UndefinedTable

from cli.service.opening import CONNECTING
from cli.service.settings import SettingError
from eventstore.errors import StoreUnavailable, first_line, reason_of
from eventstore.log.ledger import Ledger
from eventstore.operations.migrate import NEWEST
from redaction.text import cleaned
from telemetry.serving import serve_in_threads
from telemetry.supervision import supervision


def why_not_ready(ledger: Ledger) -> str | None:
    """Return the reason why the role cannot do its work at the moment; None if it can."""
    try:
        with ledger.connection() as connection:
            query = "SELECT EXISTS (SELECT FROM schema_migrations WHERE name = %s) AS is_there"
            row: Any = connection.execute(query, (NEWEST,)).fetchone()
    except StoreUnavailable as error:
        # If the log is not open yet, the reason is the result of the failed test of its database.
        connecting = [trouble.error for trouble in supervision.troubles() if trouble.name == CONNECTING]
        reason = connecting[0] if connecting else first_line(error)
        return f"the database does not answer, or takes no writes ({cleaned(reason)})"
    except UndefinedTable:
        return "the schema is missing: run `importledger migrate`"
    except psycopg.Error as error:
        return f"the schema cannot be read ({cleaned(reason_of(error))})"
    if not row["is_there"]:
        return "the schema is older than the code"
    return "; ".join(f"{trouble.name}: {cleaned(trouble.error)}" for trouble in supervision.troubles()) or None


def answer_health(ledger: Ledger, port: int | None) -> None:
    """Answer health checks on a port from now on; do nothing without a port.

    Raises SettingError if the port is taken.
    """
    if port is None:
        return

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"].rstrip("/"), environ["REQUEST_METHOD"]
        status, body = "200 OK", dict[str, Any](status="alive", pid=os.getpid())
        if method not in ("GET", "HEAD") or path not in ("/livez", "/readyz"):
            status, body = "404 Not Found", {"code": "not_found", "detail": "There are GET /livez and GET /readyz."}
        elif path == "/readyz":
            body["status"] = "ready"
            if (reason := why_not_ready(ledger)) is not None:
                status = "503 Service Unavailable"
                body = {"code": "service_unavailable", "detail": f"The role cannot do its work: {reason}."}
        encoded = msgspec.json.encode(body)
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(encoded)))])
        return [] if method == "HEAD" else [encoded]

    try:
        listening = socket.create_server(("", port))
    except OSError as error:
        raise SettingError(f"IMPORTLEDGER_HEALTH_PORT: port {port} cannot be used: {error.strerror}.") from None
    serve_in_threads([listening], "health", answer)
