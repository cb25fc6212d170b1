"""Rules for the log: one decoder of events, locks with names, statuses in one place, a verifier without imports."""

import ast
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from eventstore.aggregates import import_process
from eventstore.proof import sample_verifier, verifier
from tests.support.sources import nodes
from tests.support.stored_events import TOPICS

EVENT_NAMES = {event.__name__ for event in TOPICS.values()}
ROOT = Path(__file__).parents[1]


def decoded_types(file: Path) -> set[str]:
    """Return the names of the types that a file decodes from JSON."""
    calls = [node for node in nodes(file) if isinstance(node, ast.Call)]
    decoding = [call for call in calls if ast.unparse(call.func) in ("msgspec.json.Decoder", "msgspec.json.decode")]
    named = [argument for call in decoding for argument in (*call.args, *(keyword.value for keyword in call.keywords))]
    return {node.id for argument in named for node in ast.walk(argument) if isinstance(node, ast.Name)}


def test_no_other_file_decodes_events() -> None:
    """Another decoder would raise errors for which its callers are not prepared."""
    files = [file for folder in ROOT.glob("*/__init__.py") for file in folder.parent.rglob("*.py")]
    product_files = [file for file in files if file.relative_to(ROOT).parts[0] not in ("tests", "bench", "checks")]
    assert [file for file in product_files if decoded_types(file) & EVENT_NAMES] == []
    assert decoded_types(ROOT / "eventstore" / "events.py") == {"event", "_WithMetadata"}


def test_the_logs_lock_is_taken_for_a_switch_and_for_one_account_and_for_nothing_that_grows_with_the_log() -> None:
    """`append_events` takes it as well. Creates wait while it is held."""
    lock_files = [
        str(file.relative_to(ROOT))
        for folder in ("api", "cli", "console", "embedded", "eventstore", "projections", "workers")
        for file in (ROOT / folder).rglob("*.py")
        if re.search(r"advisory\w*lock\w*\(%s[^)]*\)\"[^\n]*locks\.LOG\b", file.read_text())
    ]
    assert sorted(lock_files) == ["projections/versions/compare.py", "projections/versions/versions.py"]


def test_nobody_takes_a_lock_by_a_number_that_is_not_in_the_list() -> None:
    for folder in ("api", "cli", "embedded", "eventstore", "projections", "workers"):
        for file in (ROOT / folder).rglob("*.py"):
            if file.name != "locks.py":
                assert not re.search(r"\b701[56]\d{3}\b", file.read_text()), file


def test_nothing_else_sets_how_long_a_lock_of_a_table_is_waited_for() -> None:
    for folder in ("eventstore/operations", "projections/versions"):
        for file in (ROOT / folder).rglob("*.py"):
            settings = re.findall(r"\bSET (?:LOCAL )?lock_timeout.*", file.read_text())
            allowed = re.compile(r".*(?:locks\.WAIT_MS|VACUUM_TIMEOUT)|SET lock_timeout = 0;")
            assert all(allowed.match(line) for line in settings), (file, settings)


def test_the_status_after_an_event_is_written_down_once() -> None:
    file = Path(import_process.__file__).resolve()
    for package in ("api", "cli", "eventstore", "projections", "workers"):
        for other in (file.parents[2] / package).rglob("*.py"):
            status = re.search(r'(Import|DryRun)[A-Z]\w+"?(\(\))?: "[A-Z_]{4,}"', other.read_text())
            assert other == file or not status, other


@pytest.mark.parametrize("module", [verifier, sample_verifier])
def test_each_file_of_the_verifier_is_short_and_uses_only_the_standard_library(module: ModuleType) -> None:
    source = Path(module.__file__ or "").read_text()
    assert len(source.splitlines()) < 500
    imported = {
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    } - ({verifier.__name__} if module is sample_verifier else set())
    packages = {name.split(".")[0] for name in imported}
    assert packages <= sys.stdlib_module_names
    assert not packages & {"urllib", "socket", "http", "ssl", "subprocess"}
