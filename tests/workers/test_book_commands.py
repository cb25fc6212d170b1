"""Names of files, arguments and commands of steps."""

import shlex
from typing import Any

import pytest

from projections.auxiliary.books import MAX_FILE_BYTES
from workers.book_commands import MAX_NAME_BYTES, BookRefused, command_of, known_arguments, refuse_name, refuse_size

FILES = ["kunden.csv", "zähler 1.xlsx", "mapping.yaml"]


@pytest.mark.parametrize("name", ["kunden.csv", "Zähler 2024.xlsx", "a", "x" * MAX_NAME_BYTES])
def test_usual_names_of_files_are_accepted(name: str) -> None:
    refuse_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "..", "../a", "a/b", "/etc/passwd", "a\\b", ".hidden", "--url=http://elsewhere", "-", "a\0b", "a\nb"),
        *(" a", "a ", "a*", "a[1]", "a?", "C:a", "x" * (MAX_NAME_BYTES + 1), "\u202efdp.csv", "ä" * MAX_NAME_BYTES),
    ],
)
def test_names_that_leave_the_folder_or_are_options_are_refused(name: str) -> None:
    with pytest.raises(BookRefused):
        refuse_name(name)


def test_a_file_has_at_most_2_gb() -> None:
    refuse_size(MAX_FILE_BYTES)
    for size in (MAX_FILE_BYTES + 1, -1):
        with pytest.raises(BookRefused):
            refuse_size(size)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("push", {}),
        ("push", {"files": "other.csv"}),
        ("push", {"files": "kunden.csv", "mapping": "other.yaml"}),
        ("push", {"files": "kunden.csv", "only": "phone"}),
        ("push", {"files": "kunden.csv\n\nmapping.yaml"}),
        ("check", {"files": "kunden.csv"}),
        ("check", {"files": "kunden.csv\nzähler 1.xlsx", "mapping": "mapping.yaml"}),
        ("init", {"files": "kunden.csv", "preset": "--help"}),
        ("errors", {}),
        ("errors", {"run": "--key"}),
        ("errors", {"run": "x" * 65}),
        ("fix", {"run": "go", "only": "--key"}),
        ("delete", {}),
    ],
)
def test_steps_take_only_their_arguments_and_files_of_the_book(kind: Any, arguments: dict[str, str]) -> None:
    with pytest.raises(BookRefused):
        known_arguments(kind, arguments, FILES)


@pytest.mark.parametrize(
    ("kind", "arguments", "command"),
    [
        ("init", {"files": "kunden.csv\nzähler 1.xlsx", "preset": "sap-is-u"},
         "map init kunden.csv 'zähler 1.xlsx' --preset sap-is-u > mapping.yaml"),
        ("check", {"files": "kunden.csv", "mapping": "mapping.yaml"},
         "map check mapping.yaml kunden.csv --supplier ACME"),
        ("values", {"files": "kunden.csv", "mapping": "mapping.yaml"},
         "map values mapping.yaml kunden.csv -o values.csv"),
        ("manifest", {"files": "kunden.csv"}, "manifest kunden.csv -o go.manifest.json --supplier ACME"),
        ("rehearse", {"files": "kunden.csv", "mapping": "mapping.yaml", "run": "go-rehearsal-2"},
         "push kunden.csv --mode dry_run --run go-rehearsal-2 --mapping mapping.yaml --supplier ACME --wait"),
        ("push", {"files": "kunden.csv", "mapping": "mapping.yaml"},
         "push kunden.csv --run go --mapping mapping.yaml --supplier ACME --manifest go.manifest.json --wait"),
        ("push", {"files": "go.failures.ndjson"}, "push go.failures.ndjson --run go --supplier ACME --wait"),
        ("errors", {"run": "go-rehearsal-2"}, "errors go-rehearsal-2 --supplier ACME"),
        ("reconcile", {}, "reconcile go --manifest go.manifest.json --supplier ACME"),
    ],
)  # fmt: skip
def test_each_step_is_a_command_that_people_can_type(kind: Any, arguments: dict[str, str], command: str) -> None:
    shown = command_of(kind, "ACME", "go", arguments)

    assert shown == f"importbook {command}"
    from importledger_client.commands.verbs import importbook

    words = [word for word in shlex.split(shown)[1:] if word not in (">", "mapping.yaml") or kind != "init"]
    verb = importbook.commands[words[0]]
    verb = verb.commands[words.pop(1)] if words[0] == "map" else verb  # type: ignore[attr-defined]
    options = {option for parameter in verb.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options
