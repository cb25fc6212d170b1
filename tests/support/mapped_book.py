"""A book of five tables, as a legacy system exports them, and its mapping."""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from importledger_client.mapped_source import MappedSource
from importledger_client.mapping import read_mapping

NUMBER = {"external_account_number": "VKONT"}
BOOK = {
    "fkkvkp": "VKONT;GPART\nV1;P1\nV2;P2\nV3;P1\n",
    "but000": "PARTNER;NAME\nP2;Böhm\nP1;Groß\n",
    "ever": "VKONTO;VERTRAG;ANLAGE\nV1;T1;A1\nV1;T2;A2\nV2;T3;A3\n",
    "eastl": "ANLAGE;EQUNR\nA1;E1\nA2;E2\nA3;E3\nA3;E4\n",
    "eablg": "EQUNR;ADAT;STAND\nE1;01.01.2024;5\n"
    "E4;01.02.2024;7,5\nE1;01.02.2024;6\nE3;31.12.2023;8\nE2;01.01.2024;9\n",
}
READINGS = {"from": "eablg", "on": {"EQUNR": "EQUNR"}, "value": "STAND", "read_at": "ADAT"}
METERS = {
    "from": "eastl",
    "on": {"ANLAGE": "ANLAGE"},
    "meter_number": "EQUNR",
    "registers": [{"readings": [READINGS]}],
}
WHOLE: dict[str, Any] = NUMBER | {
    "customers": [{"from": "but000", "on": {"PARTNER": "GPART"}, "family_name": "NAME"}],
    "supply_addresses": [
        {"from": "ever", "supply_points": [{"identifier": "VERTRAG", "melos": [{"meters": [METERS]}]}]}
    ],
}
FORMS = {"dates": "DD.MM.YYYY", "decimals": "1.234,56"}
OF_BOOK = {"files": {"ever": {"key": "VKONTO"}, "but000": {"repeated": "allow"}}, **FORMS}


def mapped(folder: Path, account: dict[str, Any], tables: dict[str, str], /, **options: Any) -> MappedSource:
    """The source of a mapping over tables by name. The first is the main one, the others are `files` of the mapping."""
    for name, content in tables.items():
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")
    main, *others = tables
    files = {name: {"path": f"{name}.csv"} for name in others}
    for name, file in options.pop("files", {}).items():
        files[name] |= file
    return source_of(mapping_at(folder, account, files=files, **options), f"{main}.csv")


def mapping_at(folder: Path, account: dict[str, Any], **options: Any) -> Path:
    """Write a mapping with these options."""
    path = folder / "m.yaml"
    path.write_text(yaml.safe_dump({"account": account, **options}, allow_unicode=True), encoding="utf-8")
    return path


def source_of(mapping: Path, *files: str, supplier: str | None = None) -> MappedSource:
    """The source of files in the folder of a mapping, as `push` reads it."""
    names = [str(mapping.parent / file) for file in files]
    return MappedSource(names, read_mapping(mapping), mapping, supplier, is_strict=True)


def accounts_of(source: MappedSource) -> list[dict[str, Any]]:
    """The accounts of a source, decoded."""
    return [msgspec.json.decode(line.content) for line in source.lines()]


def spec_of(value: Any) -> Any:
    """A mapping of constants that makes this value."""
    match value:
        case dict():
            return {name: spec_of(inner) for name, inner in value.items() if inner is not None}
        case list():
            return [spec_of(inner) for inner in value]
        case bool():
            return {"constant": "true" if value else "false"}
        case _:
            return {"constant": str(value)}
