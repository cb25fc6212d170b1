"""The filter of the list of imports, in an address, a form and a query, and the list as CSV."""

import csv
import hmac
import io
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from datetime import date
from functools import partial
from urllib.parse import urlencode

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from api.description.catalogue import CATALOGUE
from api.description.problem_sentences import sentence_at
from api.http.languages import Language
from api.http.lists import ListFormat
from console.presentation.formats import Formats, in_market_time
from console.presentation.rendering import segment
from eventstore.aggregates.import_process import STATUSES
from projections.queries.import_list import ListedRow, ListFilter
from schemas.sentence import Sentence

_FORMULA = re.compile(r"""^(?=[\t\r\n])|(?:(?<=[;\t\r\n])|^)(?=[\s"']*[=+\-@＝＋－＠])""")

MAX_TEXT = 254
SEARCH = "search"
"""Parameter of an address that holds the search text, encrypted, since logs keep addresses."""
NAMES = ("supplier", "status", "code", "path", "fixed", "run", "day", "q")
"""Fields of the filter. All except `q` are parameters of the address with the same names."""
_OF_IMPORTS = frozenset(entry.code for entry in CATALOGUE if "latest_error" in entry.where)


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """The filter of a list. `misread` has `status`, `day` or `search` if their values are not valid."""

    supplier: str = ""
    status: str = ""
    code: str = ""
    path: str = ""
    fixed: str = ""
    """`no` for accounts that still fail with the code, `yes` for accounts that were processed since then; "" for both.
    """
    run: str = ""
    day: str = ""
    q: str = ""
    search: str = ""
    """`q`, encrypted for an address."""
    misread: tuple[str, ...] = ()

    @classmethod
    def of(cls, parameters: dict[str, str], search: str = "") -> "Filter":
        """Return the filter from the fields of a form, or from the parameters of an address with `q` decrypted."""
        values = {name: parameters.get(name, "").replace("\0", "").strip()[:MAX_TEXT] for name in NAMES}
        misread = []
        if values["status"] and values["status"] not in STATUSES:
            misread.append("status")
            values["status"] = ""
        if values["fixed"] not in ("", "no", "yes"):
            values["fixed"] = ""
        if values["day"] and _day(values["day"]) is None:
            misread.append("day")
            values["day"] = ""
        if search and not values["q"]:
            misread.append(SEARCH)
        return cls(**values, search=search if values["q"] else "", misread=tuple(misread))

    @property
    def is_narrowed(self) -> bool:
        return any(getattr(self, name) for name in NAMES)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Hidden fields that repeat this filter in a form."""
        return [(name, getattr(self, name)) for name in NAMES if getattr(self, name)]

    def restricted_to(self, reach: Sequence[str]) -> ListFilter:
        """Return the filter for the query, limited to the suppliers that the user sees.

        A filter for another supplier finds no imports.
        """
        suppliers = tuple(code for code in reach if not self.supplier or code == self.supplier)
        return ListFilter(
            suppliers=suppliers,
            status=self.status,
            code=self.code,
            is_problem=bool(self.path) or bool(self.fixed) or self.code not in _OF_IMPORTS,
            path=self.path,
            is_fixed=None if not self.fixed else self.fixed == "yes",
            run=self.run,
            day=_day(self.day),
            text=self.q,
        )

    def query(self, **more: str) -> str:
        """Return the query string of an address with this filter, and with `more` parameters; "" without a filter."""
        values = {name: getattr(self, name) for name in NAMES if name != "q"} | {SEARCH: self.search} | more
        given = {name: value for name, value in values.items() if value}
        return f"?{urlencode(given)}" if given else ""


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None


def import_address(supplier: str, external: str) -> str:
    """Return the address of an import's page."""
    return f"/console/imports/{segment(supplier)}/{segment(external)}/"


def hidden(text: str, token: str) -> str:
    """Encrypt the text for the session with this token, since logs and browser histories keep addresses."""
    return _cipher(token).encrypt(text.encode()).decode()


def revealed(text: str, token: str) -> str:
    """Decrypt a text of this session. Returns "" for any other text."""
    try:
        return _cipher(token).decrypt(text.encode()).decode()
    except (ValueError, InvalidToken):
        return ""


def _cipher(token: str) -> Fernet:
    return Fernet(urlsafe_b64encode(hmac.digest(token.encode(), b"address", "sha256")))


def neutral(cell: str) -> str:
    """Return the cell with `'` before each place where a spreadsheet would begin a formula.

    A spreadsheet may separate cells at semicolons and tabs, too.
    """
    return _FORMULA.sub("'", cell)


CSV_COLUMNS = (
    "import_supplier", "external_account_number", "status", "service_identifier", "error_code", "error_field",
    "error_sentence", "created_at", "modified_at",
)  # fmt: skip


def problem_of_row(row: ListedRow) -> Sentence | str:
    """Return the sentence of the row's problem; "" without one."""
    return sentence_at(row.error_code, row.error_path) if row.error_code else ""


def as_csv(rows: Iterable[ListedRow], language: Language = "en") -> bytes:
    """Return the rows as lines of CSV, in the columns of `CSV_COLUMNS`. Times are in German market time."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    for row in rows:
        cells = (
            row.supplier, row.external_account_number, row.status, row.account_number or "", row.error_code or "",
            row.error_path, Formats(language).sentence(problem_of_row(row)),
            *(in_market_time(at).isoformat(timespec="seconds") for at in (row.created_at, row.modified_at)),
        )  # fmt: skip
        writer.writerow([neutral(cell) for cell in cells])
    return text.getvalue().encode()


def csv_in(language: Language) -> ListFormat[ListedRow]:
    """Return the list as a file for spreadsheets, with sentences in this language."""
    head = f"\ufeff{','.join(CSV_COLUMNS)}\r\n".encode()
    return ListFormat(media_type="text/csv; charset=utf-8", encode=partial(as_csv, language=language), head=head)
