"""What an address of the list of imports asks for, and how the same is said to others: as a link and as a command."""

import csv
import io
import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import date
from urllib.parse import quote, urlencode

import msgspec

from api.description.catalogue import CATALOGUE
from api.http.lists import ListFormat
from eventstore.aggregates.import_process import STATUSES
from projections.queries.import_list import ListedRow, Narrowed

_FORMULA = re.compile(r"""^(?=[\t\r\n])|(?:(?<=[;\t\r\n])|^)(?=[\s"']*[=+\-@＝＋－＠])""")

MAX_TEXT = 254
SEARCH = "search"
"""The parameter of an address that holds the text of a search, encrypted: addresses end in logs."""
NAMES = ("supplier", "status", "code", "path", "mended", "run", "day", "q")
"""Fields of a form that narrow a list; all but `q` stand in its address by the same names."""
_OF_IMPORTS = frozenset(entry.code for entry in CATALOGUE if "latest_error" in entry.where)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a list is asked to show; what is not understood is named in `misread`."""

    supplier: str = ""
    status: str = ""
    code: str = ""
    path: str = ""
    mended: str = ""
    """`no` for accounts that still fail for the code, `yes` for those that were processed since; "" for both."""
    run: str = ""
    day: str = ""
    q: str = ""
    search: str = ""
    """`q` as it stands in an address."""
    misread: tuple[str, ...] = ()

    @classmethod
    def of(cls, parameters: dict[str, str], search: str = "") -> "Asked":
        """From the fields of a form, or what they stand for in an address."""
        said = {name: parameters.get(name, "").replace("\0", "").strip()[:MAX_TEXT] for name in NAMES}
        misread = []
        if said["status"] and said["status"] not in STATUSES:
            misread.append("status")
            said["status"] = ""
        if said["mended"] not in ("", "no", "yes"):
            said["mended"] = ""
        if said["day"] and _day(said["day"]) is None:
            misread.append("day")
            said["day"] = ""
        return cls(**said, search=search if said["q"] else "", misread=tuple(misread))

    @property
    def is_narrowed(self) -> bool:
        return any(getattr(self, name) for name in NAMES)

    def narrowed(self, reach: Sequence[str]) -> Narrowed:
        """The same for the query, among suppliers that the reader may see; a foreign one has no imports."""
        suppliers = tuple(code for code in reach if not self.supplier or code == self.supplier)
        return Narrowed(
            suppliers=suppliers,
            status=self.status,
            code=self.code,
            is_problem=bool(self.path) or bool(self.mended) or self.code not in _OF_IMPORTS,
            path=self.path,
            is_mended=None if not self.mended else self.mended == "yes",
            run=self.run,
            day=_day(self.day),
            text=self.q,
        )

    def query(self, **more: str) -> str:
        """The address's query that asks for the same, with some of it changed; "" for all."""
        asked = {name: getattr(self, name) for name in NAMES if name != "q"} | {SEARCH: self.search} | more
        kept = {name: value for name, value in asked.items() if value}
        return f"?{urlencode(kept)}" if kept else ""


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def import_address(supplier: str, external: str) -> str:
    """Where an import's page is."""
    return f"/console/imports/{quote(supplier, safe='')}/{quote(external, safe='')}/"


def command_line(*words: str) -> str:
    """The command that does the same, as a shell takes it."""
    return "importledger " + " ".join(word if word == "…" else shlex.quote(word) for word in words)


def neutral(cell: str) -> str:
    """Return the cell with `'` before each place where a spreadsheet would begin a formula.

    A spreadsheet may separate cells at semicolons and tabs, too.
    """
    return _FORMULA.sub("'", cell)


CSV_COLUMNS = (
    "import_supplier", "external_account_number", "status", "service_identifier", "error_code", "created_at",
    "modified_at",
)  # fmt: skip


def as_csv(rows: Iterable[ListedRow]) -> bytes:
    """Return the rows as lines of CSV, in the columns of `CSV_COLUMNS`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for row in rows:
        cells = (
            row.supplier, row.external_account_number, row.status, row.account_number or "", row.error_code or "",
            f"{row.created_at:%Y-%m-%dT%H:%M:%SZ}", f"{row.modified_at:%Y-%m-%dT%H:%M:%SZ}",
        )  # fmt: skip
        writer.writerow([neutral(cell) for cell in cells])
    return text.getvalue().encode()


CSV = ListFormat(
    media_type="text/csv; charset=utf-8", encode=as_csv, head=f"\ufeff{','.join(CSV_COLUMNS)}\r\n".encode()
)
"""A list as a file that spreadsheets read."""
