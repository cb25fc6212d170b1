"""Programs fail without printing values of their variables and errors, and log JSON if it is set."""

import http.client
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import pytest

from embedded.postgres import PostgresUrls
from tests.support.importing import ImportClient
from tests.support.make import an_account, changed, encoded
from tests.support.running import REQUEST_KEY, cli, free_port, is_ready, start_role, wait_for
from tests.support.sealed_log import Log

ROOT = Path(__file__).parents[2]
CANARY = "Vogelsang-Canary"
BREAKING = """
import importlib, os

place = os.environ.get("BROKEN_PLACE", "")
if place:
    module, _, names = place.partition(":")
    *above, name = names.split(".")
    holder = importlib.import_module(module)
    for part in above:
        holder = getattr(holder, part)

    def fail(*arguments, **named):
        family_name = os.environ["BROKEN_VALUE"]
        account = {"customers": [{"family_name": family_name}]}
        if os.environ.get("BROKEN_BY") == "StoreUnavailable":
            from eventstore.errors import StoreUnavailable
            raise StoreUnavailable("ValueError")
        raise ValueError(f"cannot take {family_name!r} of {account}")

    setattr(holder, name, fail)
"""
"""Read by each Python that starts, as `sitecustomize`: the function at the place fails, with a person in its frame."""


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    (tmp_path / "sitecustomize.py").write_text(BREAKING)
    return tmp_path


def breaking(broken: Path, place: str) -> dict[str, str]:
    """The environment of a process in which the function at this place fails."""
    return {"PYTHONPATH": f"{broken}:{ROOT}", "BROKEN_PLACE": place, "BROKEN_VALUE": CANARY}


def run(
    command: list[str], environment: Mapping[str, str], stdin: bytes = b"", at: Path = ROOT
) -> subprocess.CompletedProcess[bytes]:
    everything = os.environ | environment
    return subprocess.run(
        [sys.executable, *command], env=everything, input=stdin, capture_output=True, timeout=120, check=False, cwd=at
    )


def nothing_told(output: str) -> None:
    assert "ValueError" in output, f"it has not failed: {output}"
    assert CANARY not in output


ALONE = {"eventstore/proof/sample_verifier.py", "eventstore/proof/verifier.py"}
"""A distribution of its own for auditors, which runs without the service."""


def test_every_program_starts_through_the_same_function() -> None:
    folders = ("api", "cli", "console", "embedded", "eventstore", "projections", "workers", "docs", "telemetry")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py") if '"__main__"' in file.read_text()]
    programs = {str(file.relative_to(ROOT)): file.read_text() for file in files}
    assert {"cli/main.py", "docs/guide/build.py"} <= programs.keys()
    assert {name for name, text in programs.items() if "begin_process(" not in text} == ALONE


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (["-m", "cli.main", "worker"], "eventstore.log.ledger:Ledger.__init__"),
        (["-m", "cli.main", "up", "--port", "PORT"], "embedded.service:Service.start_servers"),
        (["docs/man/build.py", "nowhere"], "tomllib:loads"),
        (
            ["-m", "importledger_client", "errors", "go-live", "--supplier", "S"],
            "importledger_client.client:Client.__init__",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_a_program_that_fails_tells_no_value(
    shared_database: PostgresUrls, broken: Path, folder: Path, command: list[str], place: str
) -> None:
    settings = {
        "DATABASE_URL": shared_database.service,
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "IMPORTLEDGER_DATA_DIR": str(folder),
        "IMPORTLEDGER_LOG_FORMAT": "text" if "up" in command else "json",
        "IMPORTLEDGER_URL": "http://127.0.0.1:1",
        "IMPORTLEDGER_KEY": "ilk_x",
        "IMPORTLEDGER_REQUEST_KEY": REQUEST_KEY,
    }
    if "up" in command:
        del settings["REDIS_URL"]
    words = [str(free_port()) if word == "PORT" else word for word in command]
    ended = run(words, breaking(broken, place) | settings)
    assert ended.returncode != 0
    nothing_told((ended.stdout + ended.stderr).decode())


CHECKING = """
import asyncio, json, sys
from datetime import UTC, datetime
from api.bulk import executor
from api.bulk.checking import CheckRequest
from market.submission_check import Terms
from telemetry.log import begin_process

begin_process("info", "json", is_role=True)
request = CheckRequest([sys.stdin.buffer.read()] * 8, {"S": Terms()}, "create", "", datetime.now(UTC))

async def main():
    bulk = executor.BulkExecutor()
    for _ in range(executor.HELPERS_AFTER_BATCHES + 1):
        await bulk.check(request)
    await asyncio.wrap_future(bulk._started)
    executor.check_lines = None  # from now on this process checks nothing itself
    lines = await bulk.check(request)
    await bulk.close()
    print(json.dumps([line.errors[0].detail for line in lines]))

asyncio.run(main())
"""


def test_a_helper_in_which_judging_fails_tells_no_value_and_answers(broken: Path) -> None:
    account = encoded(changed(an_account("S", 1), CANARY, "customers", 0, "family_name"))
    ended = run(["-c", CHECKING], breaking(broken, "market.submission_check:check_submission"), account)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(b"ValueError") == 8, "each line has its answer"
    nothing_told((ended.stdout + ended.stderr).decode("utf-8", "replace"))
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert {line["event"] for line in lines} == {"line could not be checked"}


def test_children_that_share_work_out_tell_no_value(broken: Path, log: Log) -> None:
    environment = breaking(broken, "eventstore.proof.payload_verification:open_payloads")
    environment |= {"DATABASE_URL": log.urls.service, "IMPORTLEDGER_SEALING_KEY": "A" * 43}
    ended = run(["-m", "cli.main", "verify", "--all", "--jobs", "2"], environment)
    assert ended.returncode != 0
    nothing_told((ended.stdout + ended.stderr).decode())


@pytest.mark.promise("each-line-log-json")
def test_a_worker_without_redis_logs_json_and_repeats_nothing(database: PostgresUrls, folder: Path) -> None:
    environment = {
        "DATABASE_URL": database.service,
        "REDIS_URL": f"redis://127.0.0.1:{free_port()}/0",
        "IMPORTLEDGER_LOG_FORMAT": "json",
        "IMPORTLEDGER_DATA_DIR": str(folder),
        "PYTHONWARNINGS": "always",
    }
    log = folder / "worker.log"
    with start_role("worker", environment=environment, log=log):
        wait_for(lambda: log.exists() and log.read_text().count("\n") > 3, "it has logged")
        wait_for(lambda: "dramatiq" in log.read_text(), "dramatiq has logged")
        time.sleep(3)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(isinstance(line, dict) for line in lines)
    same = [json.dumps({name: line.get(name) for name in ("logger", "event", "exception")}) for line in lines]
    assert len(same) == len(set(same)), "each thing is told once"
    assert any("dramatiq" in line.get("logger", "") for line in lines)


def test_a_role_that_cannot_start_says_why_in_json(folder: Path) -> None:
    settings = {"IMPORTLEDGER_LOG_FORMAT": "json", "IMPORTLEDGER_DATA_DIR": str(folder)}
    for command, reason in (
        (["worker"], "DATABASE_URL"),
        (["api", "--port", "none"], "--port"),
        (["relay", "--bogus"], "--bogus"),
    ):
        ended = cli(*command, environment=settings, check=False)
        assert ended.returncode == 1
        assert any(reason in json.loads(line)["event"] for line in ended.stderr.splitlines())


def test_a_request_that_fails_tells_no_value(database: PostgresUrls, broken: Path, folder: Path) -> None:
    access = {"DATABASE_URL": database.admin, "IMPORTLEDGER_DATA_DIR": str(folder)}
    cli("supplier", "create", "S", environment=access)
    made = cli("key", "create", "Testers", "--supplier", "S", "--json", environment=access)
    environment = breaking(broken, "market.submission_check:check_submission_in_steps")
    environment |= {"DATABASE_URL": database.service, "IMPORTLEDGER_DATA_DIR": str(folder)}
    environment |= {"IMPORTLEDGER_LOG_FORMAT": "json"}
    port, log = free_port(), folder / "api.log"
    with start_role("api", "--port", str(port), environment=environment, log=log):
        wait_for(lambda: is_ready(f"http://127.0.0.1:{port}"), "the api is ready")
        client = ImportClient(f"http://127.0.0.1:{port}", json.loads(made.stdout)["api_key"], tries=1)
        account = changed(an_account("S", 1), CANARY, "customers", 0, "family_name")
        answer = client.create(encoded(account))
        client.close()
        wait_for(lambda: "unexpected error" in log.read_text(), "it has logged")
    assert answer.status == 500
    assert CANARY not in json.dumps(answer.body)
    nothing_told(log.read_text())
    assert all(json.loads(line) for line in log.read_text().splitlines())
    assert "account_import.py" in log.read_text(), "where it came from is told"


@pytest.mark.parametrize(("by", "status"), [("ValueError", 500), ("StoreUnavailable", 503)])
def test_a_sign_in_link_and_an_account_number_that_fail_are_logged_by_their_route(
    database: PostgresUrls, broken: Path, folder: Path, by: str, status: int
) -> None:
    environment = breaking(broken, "api.http.database:read") | {"BROKEN_BY": by, "OTEL_TRACES_EXPORTER": "console"}
    environment |= {"DATABASE_URL": database.service, "IMPORTLEDGER_DATA_DIR": str(folder)}
    environment |= {"OTEL_TRACES_SAMPLER": "always_on"}
    port, log = free_port(), folder / "api.log"
    with start_role("api", "--port", str(port), environment=environment, log=log):
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: status_of(f"{url}/livez") == 200, "the api answers")
        assert status_of(f"{url}/console/sign-in/{CANARY}/") == status
        assert status_of(f"{url}/v2/data-import/accounts/S/{CANARY}/") == 401
        assert status_of(f"{url}/nowhere/{CANARY}/") == 404
        wait_for(lambda: log.read_text().count('"/console/sign-in/{token}/"') >= 2, "it has logged")
    output = log.read_text()
    assert CANARY not in output
    assert '"http.route": "/console/sign-in/{token}/"' in output, "its span names the route"


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except (OSError, http.client.HTTPException):
        return 0
