"""Names of files, arguments and commands of steps."""

import shlex
from typing import Any

import pytest

from console.books.commands import (
    MAX_NAME_BYTES,
    STEP_ERRORS,
    BookRefused,
    command_of,
    has_accounts,
    known_arguments,
    percent_in,
    refuse_name,
    refuse_size,
)
from projections.auxiliary.books import MAX_FILE_BYTES

FILES = ["kunden.csv", "zähler 1.xlsx", "mapping.yaml"]


@pytest.mark.parametrize("name", ["kunden.csv", "Zähler 2024.xlsx", "a", "x" * MAX_NAME_BYTES])
def test_usual_names_of_files_are_accepted(name: str) -> None:
    refuse_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", "..", "../a", "a/b", "/etc/passwd", "a\\b", ".hidden", "--url=http://elsewhere", "-", "a\0b", "a\nb"),
        *("go.manifest.json", "go.certificate.pdf", "go.certificate.json", "go.failures.ndjson"),
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
        ("push", {"files": "kunden.csv\n\nmapping.yaml"}),
        ("push", {"files": "mapping.yaml"}),
        ("push", {"files": "kunden.csv", "language": "--key"}),
        ("check", {}),
        ("check", {"files": "kunden.csv\nzähler 1.xlsx"}),
        ("init", {"files": "kunden.csv"}),
        ("errors", {}),
        ("errors", {"run": "--key"}),
        ("errors", {"run": "x" * 65}),
        ("delete", {}),
    ],
)
def test_steps_take_only_their_arguments_and_files_of_the_book(kind: Any, arguments: dict[str, str]) -> None:
    with pytest.raises(BookRefused):
        known_arguments(kind, arguments, FILES)


def test_tables_need_a_mapping_and_a_mapping_is_proposed_once() -> None:
    for kind in ("check", "rehearse", "push"):
        with pytest.raises(BookRefused, match=r"mapping\.yaml"):
            known_arguments(kind, {"files": "kunden.csv"}, ["kunden.csv"])
    arguments = {"files": "kunden.csv", "preset": "--help"}
    with pytest.raises(BookRefused):
        known_arguments("init", arguments, ["kunden.csv"])
    assert known_arguments("init", arguments | {"preset": "bo4e"}, ["kunden.csv"])
    assert known_arguments("push", {"files": "book.ndjson.gz"}, ["book.ndjson.gz"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, True) for name in ("a.csv", "A.XLSX", "b.parquet", "c.ndjson", "d.jsonl.zst", "malo.json")),
        *((name, False) for name in ("mapping.yaml", "values.csv", "go.failures.csv", "go.failures.xlsx", "a.pdf")),
        *((name, False) for name in ("go.manifest.json", "go.certificate.json", "go.differences.ndjson", "a")),
    ],
)
def test_files_with_accounts_are_known_by_their_names(name: str, expected: bool) -> None:
    assert has_accounts(name) is expected


@pytest.mark.parametrize(
    ("line", "percent"), [("made 5 of 9 · 45 %", 45), ("120 %", 100), ("1.5 %", None), ("x", None), ("7 % … 8 %", 7)]
)
def test_progress_is_read_from_lines(line: str, percent: int | None) -> None:
    assert percent_in(line) == percent


def test_every_reason_is_one_sentence_or_two() -> None:
    assert all(text.endswith(".") for text in STEP_ERRORS.values())


@pytest.mark.parametrize(
    ("kind", "arguments", "command"),
    [
        ("init", {"files": "kunden.csv\nzähler 1.xlsx", "preset": "sap-is-u"},
         "map init kunden.csv 'zähler 1.xlsx' --preset sap-is-u > mapping.yaml"),
        ("check", {"files": "kunden.csv"}, "map check mapping.yaml kunden.csv --supplier ACME"),
        ("values", {"files": "kunden.csv"}, "map values mapping.yaml kunden.csv -o values.csv"),
        ("rehearse", {"files": "kunden.csv"},
         "push kunden.csv --mapping mapping.yaml --supplier ACME --mode dry_run --run go-rehearsal --wait"),
        ("push", {"files": "kunden.csv\ncorrected-1.failures.xlsx"},
         "push kunden.csv corrected-1.failures.xlsx --mapping mapping.yaml --supplier ACME --run go"
         " --manifest go.manifest.json --wait"),
        ("push", {"files": "book.ndjson"},
         "push book.ndjson --supplier ACME --run go --manifest go.manifest.json --wait"),
        ("errors", {"run": "go-rehearsal"}, "errors go-rehearsal --supplier ACME --excel"),
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
