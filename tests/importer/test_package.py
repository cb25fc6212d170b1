"""The distribution: one import name, a command, and an account as the service has it."""

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

import importledger_client
from importledger_client import wire
from schemas.account import Account

ROOT = Path(__file__).parent.parent.parent


def test_the_wheel_holds_one_package_and_nothing_else(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "--wheel-dir", tmp_path, ROOT / "importer"], check=True, timeout=120, capture_output=True)
    (wheel,) = tmp_path.glob("importledger_client-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        top = {name.split("/", 1)[0] for name in archive.namelist()}
        assert {name for name in top if not name.endswith(".dist-info")} == {"importledger_client"}
        (entry,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert b"importbook = importledger_client.commands.main:main" in archive.read(entry)


def fields(node: inspect.Type, path: str = "") -> dict[str, bool]:
    """Every path of a shape, and whether it has to be given."""
    found: dict[str, bool] = {}
    match node:
        case inspect.UnionType(types=types):
            for member in types:
                found |= fields(member, path)
        case inspect.VarTupleType(item_type=item):
            found |= fields(item, path)
        case inspect.StructType():
            for field in node.fields:
                found[f"{path}{field.name}"] = field.required
                found |= fields(field.type, f"{path}{field.name}.")
        case _:
            pass
    return found


def test_the_typed_account_is_that_of_the_contract() -> None:
    def shape(of: Any) -> dict[str, bool]:
        return fields(inspect.type_info(of))

    assert shape(wire.Account) == shape(Account)


def test_a_verb_that_sends_nothing_starts_without_an_http_library() -> None:
    script = "import sys, importledger_client.commands.verbs; print(sorted({'httpx', 'asyncio'} & sys.modules.keys()))"
    read = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert read.stdout == "[]\n"


def test_what_the_package_offers_is_there_and_nothing_else() -> None:
    for name in importledger_client.__all__:
        assert getattr(importledger_client, name).__name__ == name
    with pytest.raises(AttributeError, match=r"'importledger_client' has no attribute 'Clients'"):
        importledger_client.Clients  # noqa: B018
