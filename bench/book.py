"""Map a book of six tables to NDJSON, and compare its time and memory with their bars.

    python -m bench.book --accounts 200000 --form xlsx

The tables are like exports of SAP IS-U: contract accounts, partners, contracts, devices, readings and open items, in
Windows-1252 with German dates and numbers. `importbook map check` reads, counts and joins them in a process of its own
and makes every account. Exit code 1 if it takes longer, or more memory, than the bars for this number of accounts.
"""

import argparse
import contextlib
import csv
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import xlsxwriter
from pyarrow import parquet

ACCOUNTS = 200_000
MOST_SECONDS = 60.0
"""Bar for 200,000 accounts, whose tables have 1.5 million rows."""
MOST_MIB = 1024
MAPPING = """
dates: DD.MM.YYYY
decimals: 1.234,56
empty: ["31.12.9999", "00.00.0000"]
where: coalesce(LOEVM, '') <> 'X'
source: {encoding: cp1252}
files:
  BUT000: {path: BUT000.csv, repeated: allow}
  EVER: {path: EVER.csv, key: VKONTO}
  EASTL: {path: EASTL.csv}
  EABLG: {path: EABLG.csv}
  DFKKOP: {path: DFKKOP.csv, key: VKONT}
ignore: [BUKRS, ERDAT, ERNAM, VERTRAG, ABLBELNR, OPBEL, FAEDN]
account:
  external_account_number: VKONT
  import_supplier: {constant: NORDWIND}
  transfer_balance: {from: DFKKOP, sum: -number(BETRW)}
  billing_address1:
    from: BUT000
    on: {PARTNER: GPART}
    sql: "regexp_extract(STREET, '^(.*?)\\\\s+(\\\\d.*)$', 1)"
  billing_address2:
    from: BUT000
    on: {PARTNER: GPART}
    sql: "regexp_extract(STREET, '^(.*?)\\\\s+(\\\\d.*)$', 2)"
  billing_postcode: {from: BUT000, on: {PARTNER: GPART}, column: POST_CODE1}
  billing_address4: {from: BUT000, on: {PARTNER: GPART}, column: CITY1}
  customers:
  - from: BUT000
    on: {PARTNER: GPART}
    given_name: NAME_FIRST
    family_name: NAME_LAST
    date_of_birth: BIRTHDT
  supply_addresses:
  - from: EVER
    supply_address1: STRASSE
    supply_postcode: PLZ
    customer_at_supply_address_from_date: EINZDAT
    supply_points:
    - identifier: EXT_UI
      supply_type: {column: SPARTE, table: sparte}
      supply_start_date: EINZDAT
      supply_end_date: AUSZDAT
      melos:
      - melo_number: EXT_UI
        meters:
        - from: EASTL
          on: {ANLAGE: ANLAGE}
          meter_number: EQUNR
          active_from: AB
          registers:
          - obis_code: {constant: "1-1:1.8.0"}
            readings:
            - from: EABLG
              on: {EQUNR: EQUNR}
              value: ZWSTAND
              read_at: ADAT
tables: {sparte: {"01": electricity, "02": gas}}
"""
_NAMES = [
    "Müller",
    "Schmidt",
    "Schneider",
    "Fischer",
    "Weber",
    "Meyer",
    "Wagner",
    "Becker",
    "Schäfer",
    "Köhler",
    "Groß",
    "Böhm",
    "Weiß",
    "Jäger",
]
_TOWNS = ["Köln", "München", "Düsseldorf", "Nürnberg", "Fürth", "Lübeck", "Görlitz", "Würzburg", "Ulm", "Bonn"]
_HEADERS = {
    "FKKVKP": "VKONT GPART BUKRS LOEVM ERDAT ERNAM",
    "BUT000": "PARTNER NAME_FIRST NAME_LAST BIRTHDT STREET POST_CODE1 CITY1 BUKRS",
    "EVER": "VERTRAG VKONTO ANLAGE SPARTE EINZDAT AUSZDAT EXT_UI STRASSE PLZ ERDAT",
    "EASTL": "ANLAGE EQUNR AB BUKRS",
    "EABLG": "ABLBELNR EQUNR ADAT ZWSTAND ERNAM",
    "DFKKOP": "OPBEL VKONT BETRW FAEDN BUKRS",
}


def write_book(folder: Path, accounts: int) -> int:
    """Write the six tables and the mapping, and return the number of rows."""
    rows = 0
    with contextlib.ExitStack() as stack:
        writers = {}
        for name, header in _HEADERS.items():
            file = stack.enter_context((folder / f"{name}.csv").open("w", encoding="cp1252", newline=""))
            writers[name] = csv.writer(file, delimiter=";")
            writers[name].writerow(header.split())
        for name, row in _rows(random.Random(50), accounts):
            writers[name].writerow(row)
            rows += 1
    (folder / "m.yaml").write_text(MAPPING, encoding="utf-8")
    return rows


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
            columns = [
                pyarrow.array([cell or None for cell in column], pyarrow.string()) for column in zip(*rows, strict=True)
            ]
            parquet.write_table(pyarrow.table(columns, names=header), folder / f"{name}.parquet")
        source.unlink()
    text = MAPPING.replace("source: {encoding: cp1252}\n", "").replace(".csv", f".{form}")
    (folder / "m.yaml").write_text(text, encoding="utf-8")


def _rows(chance: random.Random, accounts: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of all tables: seven and a half for each account."""
    order = list(range(accounts))
    for number in order:
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
            yield (
                "DFKKOP",
                [
                    f"{number:012d}",
                    vkont,
                    f"{chance.randrange(1, 900)},{chance.randrange(100):02d}-",
                    _day(chance),
                    "1000",
                ],
            )


def _day(chance: random.Random) -> str:
    return f"{chance.randrange(1, 29):02d}.{chance.randrange(1, 13):02d}.{chance.randrange(1960, 2024)}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Map a book of six tables, and compare time and memory with bars.")
    parser.add_argument("--accounts", type=int, default=ACCOUNTS, help="accounts of the book [default: 200000]")
    parser.add_argument("--form", choices=("csv", "xlsx", "parquet"), default="csv", help="tables [default: csv]")
    options = parser.parse_args()
    accounts, form = options.accounts, options.form
    with tempfile.TemporaryDirectory(prefix="bench-book-") as name:
        rows = write_book(Path(name), accounts)
        if form != "csv":
            convert(Path(name), form)
        begin = time.monotonic()
        command = [sys.executable, "-m", "importledger_client", "map", "check", "m.yaml", f"FKKVKP.{form}"]
        shown = subprocess.run(command, cwd=name, capture_output=True, text=True)
        seconds = time.monotonic() - begin
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    mebibytes, cpu_seconds = usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime
    print("\n".join(shown.stdout.splitlines()[-20:]), shown.stderr[-2000:], sep="\n")
    most = MOST_SECONDS * max(1.0, accounts / ACCOUNTS)
    print(f"{form}: {accounts:,} accounts, {rows:,} rows, {cpu_seconds:.0f} s of CPU time on both cores")
    print(f"{seconds:.1f} s (bar {most:.0f}), {mebibytes:.0f} MiB (bar {MOST_MIB})")
    return int(shown.returncode != 0 or seconds > most or mebibytes > MOST_MIB)


if __name__ == "__main__":
    sys.exit(main())
