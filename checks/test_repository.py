"""Rules for the repository: documentation is complete, requirements are pinned, functions are short."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

import click
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from starlette.routing import Route

from api.app import create_app
from api.http.errors import HANDLERS
from cli.main import importledger
from eventstore.errors import LedgerError
from tests.support.sources import nodes

ROOT = Path(__file__).parent.parent
PACKAGES = (
    *("api", "cli", "console", "redaction", "embedded", "eventstore"),
    *("market", "projections", "system", "schemas", "telemetry", "workers"),
)


def verbs(group: click.Group, prefix: str = "") -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        full = f"{prefix}{name}"
        found += verbs(command, f"{full} ") if isinstance(command, click.Group) else [(full, command)]
    return found


@pytest.mark.parametrize(("name", "command"), verbs(importledger), ids=lambda value: str(value))
def test_every_verb_has_help_and_is_in_the_operations_guide(name: str, command: click.Command) -> None:
    assert command.help
    words = (ROOT / "docs" / "reference" / "verbs.md").read_text()
    assert all(word in words for word in name.split())


def test_every_error_of_the_log_has_an_answer() -> None:
    def leaves(error: type[Exception]) -> list[type[Exception]]:
        below = error.__subclasses__()
        return [leaf for child in below for leaf in leaves(child)] or [error]

    for error in leaves(LedgerError):
        assert any(handled in HANDLERS for handled in error.__mro__[:-2]), error


@pytest.mark.asvs("V15.1.2")
@pytest.mark.parametrize(
    "name", ["dev.txt", "runtime.txt", "build.txt", "mutants.txt", "bench.txt", "failover.txt", "clients.txt"]
)
def test_requirements_are_pinned_and_hashed_and_name_no_address(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    assert "://" not in text
    entries = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert entries
    assert all("==" in line for line in entries)
    assert len(re.findall(r"--hash=sha256:", text)) >= len(entries)


def test_what_is_asked_for_with_extras_is_pinned_with_them() -> None:
    """Otherwise pip takes the newest release for them, and refuses it, since it is not pinned."""
    text = (ROOT / "requirements" / "dev.txt").read_text()
    requirements = map(Requirement, re.findall(r"(?m)^[^ #\n]+", text))
    pinned = {canonicalize_name(requirement.name): requirement.extras for requirement in requirements}
    requested = [
        (distribution.name, requirement)
        for distribution in distributions()
        if canonicalize_name(distribution.name) in {*pinned, "importledger"}
        for requirement in map(Requirement, distribution.requires or ())
        if requirement.extras and (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
    ]
    assert len(requested) > 3
    assert [each for each in requested if not each[1].extras <= pinned[canonicalize_name(each[1].name)]] == []


def test_only_the_entry_points_read_the_environment() -> None:
    allowed = {"cli", "embedded", "checks", "lab", "tests", "bench"}
    for file in ROOT.glob("*/*.py"):
        if file.parent.name not in allowed and not file.parent.name.startswith("."):
            text = file.read_text()
            reads = re.search(r"os\.environ(?!\.setdefault)|getenv", text)
            assert not reads, file


def test_the_event_store_s_root_holds_what_everybody_needs_of_it() -> None:
    names = {file.stem for file in (ROOT / "eventstore").glob("*.py")}
    assert names == {"__init__", "errors", "clock", "events", "replay"}


def test_every_package_is_in_the_distribution_and_in_the_image() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    named = set(project["tool"]["setuptools"]["packages"])
    present = {".".join(file.parent.relative_to(ROOT).parts) for file in ROOT.glob("[a-z]*/**/__init__.py")}
    unlisted = {"tests", "bench", "checks", "lab", "importer"}
    assert named == {name for name in present if name.split(".")[0] not in unlisted}
    image = (ROOT / "Containerfile").read_text()
    assert all(f"COPY {name} {name}\n" in image for name in named if "." not in name)


def test_every_folder_of_the_repository_is_in_its_readme() -> None:
    """Files that a test has left, and that were committed by mistake, are found by their folder."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=False, cwd=ROOT)
    folders = {file.partition("/")[0] for file in listed.stdout.splitlines() if "/" in file and file[0] != "."}
    readme = (ROOT / "README.md").read_text()
    assert [folder for folder in folders if f"`{folder}/`" not in readme] == []


def test_documents_are_wrapped_at_100_characters_tables_and_blocks_excepted() -> None:
    """The list of error codes is generated, with both languages in a line."""
    pages = {*(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "reference" / "errors.md"}
    for file in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(pages)):
        prose = re.sub(r"^```.*?^```", "", file.read_text(), flags=re.DOTALL | re.MULTILINE)
        assert [line for line in prose.splitlines() if len(line) > 100 and not line.startswith("|")] == [], file


def functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Yield every function of the shipped packages, with its file and the source line of its name."""
    for package in (*PACKAGES, "importer/src/importledger_client"):
        for file in (ROOT / package).rglob("*.py"):
            lines = file.read_text().splitlines()
            for node in nodes(file):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield file, node, lines[node.lineno - 1]


def test_the_application_is_put_together_in_less_than_50_lines() -> None:
    [size] = [(node.end_lineno or 0) - node.lineno + 1 for _, node, _ in functions() if node.name == "create_app"]
    assert size < 50


def test_no_function_is_longer_than_60_lines_without_saying_why() -> None:
    """The reason stands beside its name, `# long: …` or after the `noqa` of C901, which is ruff's limit of 12."""
    long = [
        f"{file.relative_to(ROOT)} {node.name}"
        for file, node, line in functions()
        if (node.end_lineno or 0) - node.lineno >= 60 and not re.search(r"# (long:|noqa: C901 -) \w+( \S+){3}", line)
    ]
    assert long == []
    for file, node, line in functions():
        assert "C901" not in line or re.search(r"C901 - \w+( \S+){2}", line), (file, node.name)


@pytest.mark.api_top_10("API9")
def test_every_route_is_in_the_api_guide() -> None:
    guide = (ROOT / "docs" / "reference" / "api.md").read_text()
    app = create_app("postgresql://nobody@127.0.0.1:1/none", b"k" * 32)
    for route in app.routes:
        assert isinstance(route, Route)
        if route.path.endswith("/"):
            assert route.methods
            method = "POST" if "POST" in route.methods else "GET"
            assert f"{method} {route.path}" in guide, route.path


_STARTS = re.compile(
    r"(?:[\w.]+\.)?(?:cli|program|run_verb|start_role|typed)\(f?'(?:up\b|api\b|demo\b|\{verb\})"
    r"|[\[(].*'cli\.main', '(?:up|api|demo)'|'(?:up|api|demo) --"
)
"""Calls and command lines that start an api."""


def test_a_test_that_starts_an_api_names_its_port() -> None:
    """On the default port another service may listen."""
    starting = [
        source
        for folder in ("tests", "bench", "lab")
        for file in (ROOT / folder).rglob("*.py")
        if re.search(r"[\"{](?:up|api|demo|verb)\b", file.read_text())
        for node in nodes(file)
        if isinstance(node, ast.Call | ast.List | ast.Tuple | ast.Constant)
        if _STARTS.match(source := ast.unparse(node))
    ]
    assert len(starting) > 10
    assert [source for source in starting if not re.search(r"--port|--fd|\*\w", source)] == []
