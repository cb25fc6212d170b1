"""Finding accounts by what people know of them: part of a name, an e-mail address, a postcode, a meter, a MaLo-ID.

Follows the log, from the newest payload of each import on; who was erased is not found any more.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from psycopg import AsyncConnection
from psycopg.rows import args_row

from eventstore.aggregates.import_process import ImportStaged, SubjectErased, identity_of
from projections.versioning.following import Index
from projections.versioning.reading import Seen
from schemas.status import FoundAccount

MAX_FOUND = 50
MIN_LETTERS = 3
"""Shorter parts of names find too much."""


class _Customer(msgspec.Struct, frozen=True):
    given_name: str | None = None
    family_name: str | None = None
    email: str | None = None


class _Meter(msgspec.Struct, frozen=True):
    meter_number: str


class _Melo(msgspec.Struct, frozen=True):
    meters: tuple[_Meter, ...] = ()


class _SupplyPoint(msgspec.Struct, frozen=True):
    identifier: str
    melos: tuple[_Melo, ...] = ()


class _SupplyAddress(msgspec.Struct, frozen=True):
    supply_postcode: str
    supply_points: tuple[_SupplyPoint, ...] = ()


class _Account(msgspec.Struct, frozen=True):
    """What is searched for, of an account that has been validated before."""

    customers: tuple[_Customer, ...] = ()
    billing_postcode: str | None = None
    supply_addresses: tuple[_SupplyAddress, ...] = ()
    payload: "_Account | None" = None


_decode = msgspec.json.Decoder(_Account).decode
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


def folded(text: str) -> str:
    """The text as it is compared: without case, accents and umlauts ("Müller" as "mueller"), single blanks."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFC", text).casefold().translate(_UMLAUTS))
    return " ".join("".join(letter for letter in plain if not unicodedata.combining(letter)).split())


def project(seen: Seen) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """(stream, supplier, external account number, names, terms) of an import that has a payload. Pure."""
    if seen.body is None:
        return
    account = _decode(seen.body)
    account = account.payload or account
    names = [folded(f"{c.given_name or ''} {c.family_name or ''}") for c in account.customers]
    yield (
        seen.stream,
        *identity_of(seen.stream),
        "|".join(name for name in names if name),
        sorted({folded(term) for term in (*_terms(account), identity_of(seen.stream)[1]) if term}),
    )


def _terms(account: _Account) -> Iterator[str | None]:
    for customer in account.customers:
        yield customer.email
    yield account.billing_postcode
    for address in account.supply_addresses:
        yield address.supply_postcode
        for point in address.supply_points:
            yield point.identifier
            yield from (meter.meter_number for melo in point.melos for meter in melo.meters)


ACCOUNT_SEARCH = Index(
    "account_search",
    events=(ImportStaged, SubjectErased),
    columns="stream text NOT NULL PRIMARY KEY, supplier text NOT NULL, external_account_number text NOT NULL,"
    " names text NOT NULL, terms text[] NOT NULL",
    indexes=("USING gin (terms)",),
    project=project,
    reads_payloads=True,
)

_SELECT = """
SELECT a.supplier, a.external_account_number, i.status, i.account_number
FROM account_search AS a
JOIN import_status AS i USING (supplier, external_account_number)
WHERE (%(suppliers)s::text[] IS NULL OR a.supplier = ANY(%(suppliers)s)) AND """
_BY_TERM = _SELECT + "a.terms @> ARRAY[%(term)s] ORDER BY a.stream LIMIT %(limit)s"
_BY_NAME = _SELECT + "a.names LIKE %(name)s ORDER BY a.stream LIMIT %(limit)s"


async def found_accounts(
    connection: AsyncConnection[Any], text: str, suppliers: Sequence[str] | None
) -> list[FoundAccount]:
    """Accounts that the text names exactly, then those with the text in a name; 50 at most, of these suppliers."""
    term = folded(text)
    fragment = "%" + term.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") + "%"
    wanted = {"suppliers": suppliers, "term": term, "name": fragment, "limit": MAX_FOUND}
    found: dict[FoundAccount, None] = {}
    for query in (_BY_TERM, _BY_NAME) if len(term) >= MIN_LETTERS else (_BY_TERM,):
        async with connection.cursor(row_factory=args_row(_found)) as cursor:
            await cursor.execute(query, wanted)
            found |= dict.fromkeys(await cursor.fetchall())
    return list(found)[:MAX_FOUND]


def _found(supplier: str, external: str, status: str, account_number: str | None) -> FoundAccount:
    return FoundAccount(
        import_supplier=supplier,
        external_account_number=external,
        status=status,
        service_account_number=account_number,
    )
