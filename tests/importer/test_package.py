"""The distribution: its files, and the fields of an account as the service has them."""

import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import inspect

import importledger_client
from importledger_client.contract import paths
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
        for name in ("account.json", "columns.yaml", "contract.json", "py.typed"):
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


def fields(node: inspect.StructType, before: str = "") -> Iterator[tuple[str, str, bool]]:
    """Yield path and kind of each field of the service's account, and whether it is required."""
    for field in node.fields:
        kind, inner = kind_of(field.type)
        yield f"{before}{field.name}", kind, field.required
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
    assert [(path, field.kind, field.is_required) for path, field in paths()] == list(fields(root))


def test_a_verb_that_sends_nothing_starts_without_an_http_library() -> None:
    script = "import sys, importledger_client.commands.verbs; print(sorted({'httpx', 'asyncio'} & sys.modules.keys()))"
    read = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert read.stdout == "[]\n"


def test_what_the_package_offers_is_there_and_nothing_else() -> None:
    for name in importledger_client.__all__:
        assert getattr(importledger_client, name).__name__ == name
    with pytest.raises(AttributeError, match=r"'importledger_client' has no attribute 'Clients'"):
        importledger_client.Clients  # noqa: B018
