"""Measure the mapping of a book of six tables to accounts: its time and memory, with their bars.

The tables are like exports of SAP IS-U: contract accounts, partners, contracts, devices, readings and open items, in
Windows-1252 with German dates and numbers. `importbook map check` reads, counts and joins them, and makes every
account.
"""

import contextlib
import csv
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import xlsxwriter

from bench.results import Bar
from bench.usage import run_measured
from system.parallel import processes

ACCOUNTS = 200_000
"""Their tables have 1.5 million rows."""
MAPPING = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
_NAMES = ["Müller", "Schmidt", "Schneider", "Fischer", "Schäfer", "Köhler", "Groß", "Böhm", "Weiß", "Jäger"]
_TOWNS = ["Köln", "München", "Düsseldorf", "Nürnberg", "Fürth", "Lübeck", "Görlitz", "Würzburg", "Ulm", "Bonn"]
_HEADERS = {
    "FKKVKP": "VKONT GPART BUKRS LOEVM ERDAT ERNAM",
    "BUT000": "PARTNER NAME_FIRST NAME_LAST BIRTHDT STREET POST_CODE1 CITY1 BUKRS",
    "EVER": "VERTRAG VKONTO ANLAGE SPARTE EINZDAT AUSZDAT EXT_UI STRASSE PLZ ERDAT",
    "EASTL": "ANLAGE EQUNR AB BUKRS",
    "EABLG": "ABLBELNR EQUNR ADAT ZWSTAND ERNAM",
    "DFKKOP": "OPBEL VKONT BETRW FAEDN BUKRS",
}


def mapped(form: str) -> list[Bar]:
    """Map tables of this form (csv, xlsx or parquet) once. Raises AssertionError if an account cannot be made."""
    with tempfile.TemporaryDirectory(prefix="bench-book-") as name:
        with processes(1) as pool:  # this process stays small: Linux counts its memory as that of programs it starts
            pool.submit(write_tables, Path(name), form).result()
        command = [sys.executable, "-m", "importledger_client", "map", "check", "m.yaml", f"FKKVKP.{form}"]
        code, seconds, kib = run_measured(command, Path(name), stdout=subprocess.DEVNULL)
    assert code == 0, form
    return [
        Bar(f"{form}: {ACCOUNTS:,} accounts of six tables [s]", seconds, 60, is_most=True),
        Bar(f"{form}: MiB of the largest process", kib / 1024, 1024, is_most=True),
    ]


def write_tables(folder: Path, form: str) -> None:
    """Write the six tables in this form, and the mapping."""
    with contextlib.ExitStack() as stack:
        writers = {}
        for name, header in _HEADERS.items():
            file = stack.enter_context((folder / f"{name}.csv").open("w", encoding="cp1252", newline=""))
            writers[name] = csv.writer(file, delimiter=";")
            writers[name].writerow(header.split())
        for name, row in _rows(random.Random(50), ACCOUNTS):
            writers[name].writerow(row)
    (folder / "m.yaml").write_text(MAPPING, encoding="utf-8")
    if form != "csv":
        convert(folder, form)


def convert(folder: Path, form: str) -> None:
    """Replace the tables by XLSX or Parquet tables of texts, and name these in the mapping."""
    for name in _HEADERS:
        source = folder / f"{name}.csv"
        with source.open(encoding="cp1252", newline="") as file:
            header, *rows = csv.reader(file, delimiter=";")
        if form == "xlsx":
            options = {"constant_memory": True, "strings_to_numbers": False, "strings_to_urls": False}
            with xlsxwriter.Workbook(str(folder / f"{name}.xlsx"), options) as book:
                sheet = book.add_worksheet()
                for number, row in enumerate((header, *rows)):
                    for place, cell in enumerate(row):
                        sheet.write_string(number, place, cell)
        else:
            import pyarrow.parquet

            columns = [
                pyarrow.array([cell or None for cell in column], pyarrow.string()) for column in zip(*rows, strict=True)
            ]
            pyarrow.parquet.write_table(pyarrow.table(columns, names=header), folder / f"{name}.parquet")
        source.unlink()
    text = MAPPING.replace("source: {encoding: cp1252}\n", "").replace(".csv", f".{form}")
    (folder / "m.yaml").write_text(text, encoding="utf-8")


def _rows(chance: random.Random, accounts: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of all tables: seven and a half for each account."""
    for number in range(accounts):
        partner = number - (number % 20 == 1)  # two of twenty accounts share a partner
        vkont, gpart = f"{200_000_000 + number:012d}", f"{100_000_000 + partner:010d}"
        yield "FKKVKP", [vkont, gpart, "1000", "X" if number % 200 == 7 else "", _day(chance), "MIGRATION"]
        name, town = chance.choice(_NAMES), chance.choice(_TOWNS)
        street, code = f"{name}straße {number % 300}", f"{10_000 + number % 80_000}"
        if partner == number:
            yield "BUT000", [gpart, "Käthe", name, _day(chance), street, code, town, "1000"]
        installation, device = f"{300_000_000 + number:010d}", f"{400_000_000 + number:018d}"
        end = "31.12.9999" if number % 9 else _day(chance)
        point = f"DE{number:031d}"
        contract = [f"{number:010d}", vkont, installation, f"0{1 + number % 2}", _day(chance), end, point, street, code]
        yield "EVER", [*contract, "01.01.2020"]
        yield "EASTL", [installation, device, _day(chance), "1000"]
        for reading in range(3):
            value = f"{chance.randrange(1, 99):d}.{chance.randrange(1000):03d},{chance.randrange(10)}"
            yield "EABLG", [f"{number}{reading}", device, _day(chance), value, "ABLESER"]
        if number % 2:
            amount = f"{chance.randrange(1, 900)},{chance.randrange(100):02d}-"
            yield "DFKKOP", [f"{number:012d}", vkont, amount, _day(chance), "1000"]


def _day(chance: random.Random) -> str:
    return f"{chance.randrange(1, 29):02d}.{chance.randrange(1, 13):02d}.{chance.randrange(1960, 2024)}"
