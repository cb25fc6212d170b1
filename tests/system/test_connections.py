"""A Postgres of our own allows as many connections as all roles together may take."""

from pathlib import Path

import pytest

from cli.service.roles import MAX_API_PROCESSES, MAX_WORKERS
from embedded.folder import DataFolder
from embedded.postgres import LEAST_CONNECTIONS, EmbeddedPostgres
from embedded.user import server_user
from system.connections import API_LISTS, API_LOG, API_READS, METRICS, RELAY, RESERVED, WORKER, of_service


def test_each_role_takes_its_share() -> None:
    assert of_service(0, 0) == RELAY + METRICS + RESERVED
    assert of_service(3, 0) - of_service(2, 0) == API_LISTS + API_LOG + API_READS + METRICS
    assert of_service(2, 3) - of_service(2, 2) == WORKER + METRICS


@pytest.mark.parametrize("roles", [(1, 1), (8, 4), (MAX_API_PROCESSES, MAX_WORKERS)])
def test_the_own_server_allows_what_the_roles_may_take(tmp_path: Path, roles: tuple[int, int]) -> None:
    needed = of_service(*roles)
    postgres = EmbeddedPostgres(DataFolder(tmp_path), server_user(), most_connections=needed)
    [allowed] = [part for part in postgres.command() if part.startswith("--max-connections=")]
    assert int(allowed.partition("=")[2]) == max(LEAST_CONNECTIONS, needed)
