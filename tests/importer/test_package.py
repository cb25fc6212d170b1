"""The distribution: its files, and the fields of an account as the service has them."""

import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from msgspec import inspect

import importledger_client
from importledger_client.commands.verbs import importbook
from importledger_client.contract import RECORDS, paths
from projections.platform.json_columns import FOLDED_OBJECTS, TABLE_OF_FIELD
from projections.platform.tables import RECORD_TABLES
from schemas.account import Account
from schemas.base import DECIMAL_PATTERN

ROOT = Path(__file__).parent.parent.parent


def test_the_wheel_holds_one_package_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", tmp_path, ROOT / "importer"], check=True, timeout=120, capture_output=True)
    (wheel,) = tmp_path.glob("importledger_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        top = {name.split("/", 1)[0] for name in names}
        assert {name for name in top if not name.endswith(".dist-info")} == {"importledger_client"}
        for name in ("account.json", "columns.yaml", "contract.json", "german.yaml", "records.json", "py.typed"):
            assert f"importledger_client/{name}" in names
        (entry,) = [name for name in names if name.endswith("entry_points.txt")]
        assert b"importbook = importledger_client.commands.main:main" in archive.read(entry)


KINDS: dict[type[inspect.Type], str] = {
    inspect.StrType: "text",
    inspect.LiteralType: "text",
    inspect.DecimalType: "decimal",
    inspect.IntType: "integer",
    inspect.BoolType: "boolean",
    inspect.DateType: "date",
    inspect.DateTimeType: "moment",
}


def fields(node: inspect.StructType, before: str = "") -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield path and kind of each field of the service's account, and the words that follow."""
    for field in node.fields:
        kind, inner = kind_of(field.type)
        words = {
            "required": field.required,
            "nullable": field.default is None,
            f"table {TABLE_OF_FIELD.get(field.name)}": kind == "list" and field.name in TABLE_OF_FIELD,
            "column": kind == "object" and field.name in FOLDED_OBJECTS,
        }
        yield f"{before}{field.name}", kind, tuple(word for word, holds in words.items() if holds)
        if inner is not None:
            yield from fields(inner, f"{before}{field.name}.")


def kind_of(node: inspect.Type) -> tuple[str, inspect.StructType | None]:
    match node:
        case inspect.UnionType(types=types):
            return kind_of(next(member for member in types if not isinstance(member, inspect.NoneType)))
        case inspect.Metadata(type=inner):
            return kind_of(inner)
        case inspect.VarTupleType(item_type=inspect.Metadata(type=item)) | inspect.VarTupleType(item_type=item):
            return ("list", item) if isinstance(item, inspect.StructType) else ("texts", None)
        case inspect.StructType():
            return "object", node
        case inspect.StrType(pattern=pattern) if pattern == DECIMAL_PATTERN:
            return "decimal", None
        case _:
            return KINDS.get(type(node), "json"), None


def test_the_fields_are_those_of_the_service() -> None:
    root = inspect.type_info(Account)
    assert isinstance(root, inspect.StructType)
    assert [(path, field.kind, field.words) for path, field in paths()] == list(fields(root))


def test_the_fields_of_records_are_those_of_the_service() -> None:
    assert {*RECORDS} == {table.name for table in RECORD_TABLES.values()}
    for wire_type, table in RECORD_TABLES.items():
        node = inspect.type_info(wire_type)
        assert isinstance(node, inspect.StructType)
        of_kind = [(path, field.kind, field.words) for path, field in paths(RECORDS[table.name])]
        assert of_kind == list(fields(node))


def test_a_verb_that_sends_nothing_starts_without_an_http_library() -> None:
    script = "import sys, importledger_client.commands.verbs; print(sorted({'httpx', 'asyncio'} & sys.modules.keys()))"
    read = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert read.stdout == "[]\n"


def test_what_the_package_offers_is_there_and_nothing_else() -> None:
    for name in importledger_client.__all__:
        assert getattr(importledger_client, name).__name__ == name
    with pytest.raises(AttributeError, match=r"'importledger_client' has no attribute 'Clients'"):
        importledger_client.Clients  # noqa: B018


def verbs(group: click.Group, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, verb in group.commands.items():
        yield (*before, name), verb
        if isinstance(verb, click.Group):
            yield from verbs(verb, (*before, name))


@pytest.mark.parametrize(("words", "verb"), list(verbs(importbook)), ids=lambda value: str(value))
def test_the_example_of_a_verb_has_only_options_of_the_verb(
    words: tuple[str, ...], verb: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = shlex.split((verb.epilog or "").partition(": ")[2].split(" > ")[0])
    monkeypatch.chdir(tmp_path)
    for file in ("book.ndjson", "kunden.csv", "m.yaml", "go-live.manifest.json"):
        Path(file).touch()
    if not isinstance(verb, click.Group):
        verb.make_context("verb", called[len(words) + 1 :])  # raises for an option that the verb does not have
