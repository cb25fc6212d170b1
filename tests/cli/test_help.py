"""Help of verbs has one form: a verb phrase, nouns for options with defaults, and one example."""

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.generated import REFERENCE, with_settings, with_verbs
from cli.main import importledger
from cli.output import NewFile
from cli.verbs import EXAMPLES, GROUPS
from importledger_client.commands.verbs import importbook
from tests.support.verbs import Verbs, every_verb

MAX_FIRST_LINE = 60
VERBS = {
    "Accept", "Approve", "Archive", "Attach", "Cancel", "Change", "Check", "Compare", "Confirm", "Create", "Disable",
    "Enable", "Erase", "Export", "Import", "List", "Make", "Manage", "Migrate", "Open", "Print", "Process", "Rebuild",
    "Reject", "Release", "Replay", "Restore", "Revert", "Revoke", "Run", "Seal", "Search", "Show", "Verify", "Write",
}  # fmt: skip
SILENT = {"", "up", "demo", "api", "relay", "worker"}
"""Verbs that run until they are stopped, or print what a shell reads."""


ALL = dict(every_verb())
IMPORTBOOK = dict(every_verb(importbook))
WITH_IMPORTBOOK = ALL | {f"importbook {name}": verb for name, verb in IMPORTBOOK.items()}


@pytest.mark.promise("every-verb-reports-json")
@pytest.mark.parametrize("name", ALL)
def test_help_begins_with_a_verb_phrase_and_ends_with_an_example(name: str) -> None:
    first = (ALL[name].help or "").splitlines()[0]
    assert len(first) <= MAX_FIRST_LINE
    assert first.split()[0].rstrip(",") in VERBS
    assert first.endswith(".")
    result = CliRunner().invoke(importledger, [*name.split(), "--help"]).output
    assert EXAMPLES[name].startswith(f"importledger {name}".strip())
    assert result.count("Example:") == 1
    assert f"Example:\n    {EXAMPLES[name]}" in result


@pytest.mark.parametrize("name", WITH_IMPORTBOOK)
def test_options_are_nouns_with_their_defaults(name: str) -> None:
    for option in WITH_IMPORTBOOK[name].params:
        if not isinstance(option, click.Option) or option.name in ("version", "help", "yes"):
            continue
        text = option.help or ""
        assert text[0].isupper(), option.name
        assert text.split()[0].rstrip(":,") not in VERBS, option.name
        assert text.endswith((".", "]")), option.name
        if isinstance(option.default, int | float | str) and option.default and not option.hidden:
            assert option.show_default, option.name


@pytest.mark.promise("every-verb-reports-json")
@pytest.mark.parametrize("name", ALL)
def test_every_verb_that_reports_has_json(name: str) -> None:
    verb = ALL[name]
    if name not in SILENT and (not isinstance(verb, click.Group) or verb.invoke_without_command):
        assert "--json" in {word for parameter in verb.params for word in parameter.opts}


@pytest.mark.promise("every-verb-reports-json")
def test_decisions_are_counted_in_json(cli: Verbs, folder: Path) -> None:
    cli.environment["IMPORTLEDGER_DATA_DIR"] = str(folder)
    cli("supplier", "create", "NORDWIND")
    for verb in ("cancel", "retry"):
        counts = json.loads(cli(verb, "NORDWIND", "--all", "--json"))
        assert counts == {"imports": 0, "changed": 0, "refused": 0}
    backup = json.loads(cli("backup", str(folder / "backup"), "--json"))
    assert (backup["position"], backup["rows"]["events"]) == (1, 1)


@pytest.mark.parametrize("name", IMPORTBOOK)
def test_the_help_of_importbook_has_the_same_form(name: str) -> None:
    first = (IMPORTBOOK[name].help or "").splitlines()[0]
    assert len(first) <= MAX_FIRST_LINE
    assert first.split()[0] in VERBS | {"Count", "Propose", "Send"}
    assert first.endswith(".")
    result = CliRunner().invoke(importbook, [*name.split(), "--help"]).output
    assert result.count("Example: importbook ") == 1
    assert f"Example: importbook {name}".strip() in result


def test_verbs_are_grouped() -> None:
    result = CliRunner().invoke(importledger, ["--help"]).output
    places = [result.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    for verbs in GROUPS.values():
        for verb in verbs:
            assert re.search(rf"^  {verb} +[A-Z][^…]*\.$", result, re.M), verb


def test_the_pages_of_settings_and_verbs_are_current() -> None:
    """`make docs` writes them."""
    for name, current in (("settings.md", with_settings), ("verbs.md", with_verbs)):
        page = (REFERENCE / name).read_text()
        assert current(page) == page


def test_no_verb_replaces_a_file_that_exists(folder: Path) -> None:
    writing = [(name, option) for name, verb in ALL.items() for option in verb.params if "--output" in option.opts]
    assert {"export", "proof", "support-bundle"} <= {name for name, _ in writing}
    (folder / "target").write_text("kept")
    (folder / "link").symlink_to(folder / "gone")
    for name, option in writing:
        assert isinstance(option.type, NewFile), name
        for file in ("target", "link"):
            result = CliRunner().invoke(importledger, [*name.split(), "--output", str(folder / file)])
            assert (result.exit_code, f"{file} must be a new file" in result.output) == (2, True), result.output
    assert (folder / "target").read_text() == "kept"
