"""Failures at many places with values that must stay secret (canaries): none is printed or logged."""

import asyncio
import contextlib
import gc
import io
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import dramatiq
import psycopg
import pytest
import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from api.http.errors import HANDLERS
from embedded.supervisor import Program, Supervisor
from eventstore.errors import LedgerError
from telemetry.log import begin_process
from tests.support.databases import Admin
from tests.support.running import wait_for
from tests.support.verbs import as_verb
from workers.broker import IMPORTS, BrokerDispatcher, declare_actor, in_process_broker, start_workers

KEY = "ilk_canary01_" + "C" * 43
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJjYW5hcnkiOiJ5ZXMifQ.Y2FuYXJ5LWNhbmFyeQ"
EMAIL = "canary.vogelsang@canary.example"
IBAN = "DE89370400440532013000"
PASSWORD = "canary-password"
NAME = "Vogelsang-Canary"
CANARIES = (KEY, TOKEN, EMAIL, IBAN, PASSWORD, NAME, "canary.vogelsang", "C" * 43)
URL = f"postgresql://importledger:{PASSWORD}@127.0.0.1:1/none"
TEXT = f"key {KEY} token {TOKEN} mail {EMAIL} iban {IBAN} url {URL}"

logger = structlog.get_logger()


class Vogelsang:
    """A local variable with a revealing repr."""

    def __repr__(self) -> str:
        return f"{NAME} {TEXT}"


def fail(error: type[Exception] = ValueError) -> NoReturn:
    """Raise an error with secret local variables and a message that quotes them."""
    api_key, family_name, account = KEY, NAME, Vogelsang()
    assert all((api_key, family_name, account))
    raise error(f"cannot take {NAME!r} of {TEXT}")


@pytest.fixture
def output() -> io.StringIO:
    """Standard error of this process, with logging as every entry point sets it up."""
    stream = io.StringIO()
    logging.getLogger().handlers[:] = []
    with contextlib.redirect_stderr(stream):
        begin_process("debug")
    return stream


def nothing_told(text: str) -> None:
    assert text.strip(), "something was printed"
    result = [canary for canary in CANARIES if canary.lower() in text.lower()]
    assert not result, text


def caught() -> ValueError:
    try:
        fail()
    except ValueError as error:
        return error


def a_logged_exception() -> None:
    try:
        fail()
    except ValueError:
        logger.exception("it failed")


def a_task_that_nobody_awaits() -> None:
    async def work() -> None:
        fail()

    async def main() -> None:
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        del task
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(main())


def a_callback_of_the_loop() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(0.01)

    asyncio.run(main())


def a_thread() -> None:
    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()


def something_that_is_collected() -> None:
    class Fails:
        def __del__(self) -> None:
            fail()

    Fails()
    gc.collect()


def the_end_of_the_program() -> None:
    error = caught()
    sys.excepthook(type(error), error, error.__traceback__)


def an_error_behind_an_error() -> None:
    try:
        try:
            fail(KeyError)
        except KeyError as cause:
            raise RuntimeError(f"cannot go on with {NAME!r}") from cause
    except RuntimeError:
        logger.exception("it failed")


def several_errors_at_once() -> None:
    logger.error("it failed", exc_info=ExceptionGroup(f"of {EMAIL}", [caught(), KeyError(NAME)]))


def a_worker_of_dramatiq() -> None:
    broker = in_process_broker()
    dispatcher = BrokerDispatcher(broker)
    declare_actor(broker, IMPORTS, lambda streams: fail())
    worker = start_workers(broker, IMPORTS, threads=1)
    dispatcher.enqueue(["import/S/1"])
    with contextlib.suppress(ValueError, dramatiq.errors.DramatiqError):
        broker.join(IMPORTS.name, timeout=60_000)
    worker.stop()


def an_answer_with_500() -> None:
    async def endpoint(request: Request) -> Response:
        fail()

    app = Starlette(routes=[Route("/", endpoint)], exception_handlers=HANDLERS)
    headers = [(b"authorization", f"Token {KEY}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/", "headers": headers, "query_string": b"", "app": app}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": TEXT.encode()}

    async def send(message: Any) -> None:
        sent.append(message)

    try:
        asyncio.run(app(scope, receive, send))
    except ValueError as error:  # Starlette raises it again, and uvicorn logs it
        logging.getLogger("uvicorn.error").error("Exception", exc_info=error)  # noqa: TRY400 - as uvicorn does
    assert sent[0]["status"] == 500
    nothing_told(str(sent))


LIBRARY = logging.getLogger("some.library")
PLACES: dict[str, Callable[[], object]] = {
    "an error that is passed on": lambda: logger.error("it failed", exc_info=caught()),
    "values of a line": lambda: logger.warning(
        "it failed", reason=TEXT, header={"Authorization": f"Token {KEY}"}, people=[(EMAIL, IBAN)]
    ),
    "names of values": lambda: logger.warning("it failed", places={EMAIL: 1}),
    "the event of a line": lambda: logger.warning(TEXT),
    "bytes and errors as values": lambda: logger.warning(
        "it failed", body=TEXT.encode(), error=psycopg.OperationalError(TEXT)
    ),
    "a message of a library": lambda: LIBRARY.warning("sending %s to %s", {"password": PASSWORD}, TEXT),
    "an error of a library": lambda: LIBRARY.error("it failed", exc_info=caught()),
    "an error of uvicorn": lambda: logging.getLogger("uvicorn.error").error(
        "Exception in ASGI application\n", exc_info=caught()
    ),
} | {
    place.__name__: place
    for place in (
        a_logged_exception, a_task_that_nobody_awaits, a_callback_of_the_loop, a_thread, something_that_is_collected,
        the_end_of_the_program, an_error_behind_an_error, several_errors_at_once, a_worker_of_dramatiq,
        an_answer_with_500,
    )
}  # fmt: skip


@pytest.mark.promise("log-holds-local-variables")
@pytest.mark.asvs("V16.2.5", "V16.5.1")
@pytest.mark.parametrize("place", PLACES)
def test_a_failure_tells_no_canary(output: io.StringIO, place: str) -> None:
    with contextlib.redirect_stderr(output):
        PLACES[place]()
        gc.collect()
    nothing_told(output.getvalue())


@pytest.mark.promise("log-holds-local-variables")
def test_an_error_of_the_database_tells_no_row(output: io.StringIO, admin: Admin) -> None:
    admin.execute("CREATE TABLE person (name text PRIMARY KEY, age integer NOT NULL CHECK (age > 0))")
    for rows in (f"('{NAME}', 1), ('{NAME}', 2)", f"('{NAME}', 0)", f"('x', '{NAME}')"):
        try:
            admin.execute(f"INSERT INTO person VALUES {rows}".encode())
        except psycopg.Error:
            logger.exception("it failed")
    nothing_told(output.getvalue())
    assert "person_pkey" in output.getvalue(), "what an operator needs is there"


@pytest.mark.promise("log-holds-local-variables")
def test_the_log_of_the_embedded_postgres_tells_no_row(admin: Admin) -> None:
    row = admin.execute("SELECT setting FROM pg_settings WHERE name = 'data_directory'").fetchone()
    with contextlib.suppress(psycopg.Error):
        admin.execute(f"SELECT '{NAME} {EMAIL}'::integer".encode())
    assert row
    log = Path(row[0]).parent / "postgres.log"
    assert not any(canary in log.read_text() for canary in CANARIES)


@pytest.mark.promise("log-holds-local-variables")
def test_the_command_tells_no_canary() -> None:
    for error in (ValueError, LedgerError):
        ended = as_verb(partial(fail, error))
        assert ended.returncode == 1
        result = ended.stdout + ended.stderr
        assert not any(canary in result for canary in CANARIES if canary != NAME), result
        assert NAME not in result or error is LedgerError  # a refusal is a sentence of our own


@pytest.mark.promise("log-holds-local-variables")
def test_what_a_child_prints_tells_no_canary(folder: Path) -> None:
    log = folder / "child.log"
    log.write_text("")
    log.chmod(0o644)
    supervisor = Supervisor()
    supervisor.start(
        Program(name="child", command=["/bin/echo", TEXT], environment=os.environ, log=str(log), stop_after_s=5)
    )
    wait_for(lambda: log.stat().st_size > 0, "the child's line is kept")
    supervisor.stop()
    nothing_told(log.read_text())
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_role_and_its_children_leave_no_core_dump() -> None:
    program = (
        "import subprocess; from cli.service.roles import role_settings; role_settings();"
        "subprocess.run(['sh', '-c', 'ulimit -S -c; ulimit -H -c'])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["0", "0"]
