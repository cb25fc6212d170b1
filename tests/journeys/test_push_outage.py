"""`importbook push` while the service restarts with another token key, so that all tokens become invalid."""

import json
import subprocess

import pytest

from importledger_client.book import book
from tests.support.folders import temporary_folder
from tests.support.importbook import COMMAND, access_to, environment
from tests.support.running import free_port, start_service, wait_for

ACCOUNTS = 120


@pytest.mark.promise("importbook-push-outlives-service")
def test_a_push_outlives_a_service_that_goes_away_and_its_tokens() -> None:
    port = free_port()
    with temporary_folder() as folder:
        first, later = ({"IMPORTLEDGER_TOKEN_KEY": letter * 43} for letter in "ab")
        with start_service(folder, port=port, environment=first) as service:
            importer = service.importer()
            lines = [entry.body for entry in book(importer.supplier, ACCOUNTS)]
            (folder / "book.ndjson").write_bytes(b"\n".join(lines))
            pushing = subprocess.Popen(
                [*COMMAND, "push", "book.ndjson", "--rate", "20/s", "--json"],
                cwd=folder,
                env=environment(access_to(importer)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            wait_for(lambda: bool(importer.client.all(importer.supplier).body), "some accounts are there")
            [api] = service.processes("api")
            api.kill()
            killed_at = len(importer.client.all(importer.supplier).body)
            wait_for(lambda: len(importer.client.all(importer.supplier).body) > killed_at, "more accounts are there")
        with start_service(folder, port=port, environment=later) as service:
            out, errors = pushing.communicate(timeout=180)
            assert pushing.returncode == 0, errors
            summary = json.loads(out)["summary"]
            assert (summary["lines"], summary["refused"]) == (ACCOUNTS, 0)
            assert summary["accepted"] + summary["replayed"] == ACCOUNTS
