"""Search for accounts by names in any order, e-mail, postcode, meter, MaLo-ID, IBAN or numbers.

Follows the log with the newest payload of each import. Erased persons and reverted accounts are not found. An api
process writes the row of a new account with the append (`projections.views.search_at_once`).
"""

import base64
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, LiteralString

import msgspec
from msgspec import UNSET
from psycopg import AsyncConnection, Connection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier

from eventstore.aggregates.import_process import ImportReverted, ImportStaged, SubjectErased, identity_of
from eventstore.operations.rights import Rights
from projections.versions.following import Index
from projections.versions.projection import Rows
from projections.versions.reading import Seen
from schemas.account import Account
from schemas.status import FoundAccount, ImportState
from schemas.submission import stored_account

MAX_FOUND = 50
"""Accounts per page of a search."""
FEW = 1_000
"""Most matches that are sorted for a page. If there are more matches, a scan in order finds a page soon."""
MIN_LETTERS = 3
"""Least letters of a part of a name. A word of a search must have at least this number of letters."""
MOST_LETTERS = 500
"""Most letters of a term. Longer terms are cut, since an entry of the index may have 2,700 bytes.

A name of 255 letters may have thousands after folding.
"""
PART_BITS = 19
"""Bits of a position within a part of the log. Terms of single accounts are indexed by part."""
MAX_PENDING_TERMS = 250_000
"""New terms in the index's pending list after which it is flushed."""
MOST_CUSTOMERS = 100
"""Customers of an account that a search finds. Further customers are ignored, because folding can make names longer."""
_digit_in = re.compile(r"\d").search
MIN_OWN = 6
"""Least length of a term with a digit that belongs to a single account. Postcodes are shorter."""


_PLAIN = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "æ": "ae", "œ": "oe", "ø": "o", "ı": "i", "ł": "l", "đ": "d", "ð": "d", "þ": "th"}
    | dict.fromkeys("’‘‛ʼʻʹ′´＇", "'")
    | dict.fromkeys("‐‑‒–—―−", "-")
    | dict.fromkeys("\N{SOFT HYPHEN}\u200b\u200c\u200d\u2060\ufeff", "")
)
"""Replacements of letters that are not a letter with an accent, as people type them on other keyboards.

Invisible characters, which texts from word processors and web pages may have, are removed.
"""
_without_e = partial(re.compile("(?<=[aou])e+").sub, "")


def folded(text: str) -> str:
    """Return the text in the form in which terms and searches are compared.

    Case, accents and repeated blanks are ignored. In words, apostrophes and an e after a, o or u are also ignored,
    because umlauts are written with or without dots or e: "Müller", "Mueller" and "Muller" are "muller", "O’Brien" is
    "obrien", "Groß" "gross", "Yılmaz" "yilmaz". Dashes are hyphens. Numbers and e-mail addresses keep their letters.
    """
    plain = _plain(text)
    if " " not in plain:
        return plain if _is_code(plain) else _as_name(plain)
    words = [word if _is_code(word) else _as_name(word) for word in plain.split()]
    return " ".join([word for word in words if word])


def _as_name(plain: str) -> str:
    if "'" in plain or "`" in plain:
        plain = " ".join(plain.replace("'", "").replace("`", "").split())
    return _without_e(plain) if "ae" in plain or "oe" in plain or "ue" in plain else plain


def _is_code(plain: str) -> bool:
    """Return whether a text has a digit or @ and is therefore compared letter by letter."""
    return plain[-1:].isdecimal() or "@" in plain or _digit_in(plain) is not None


def _plain(text: str) -> str:
    """Return the text without case, accents and repeated blanks, with umlauts as two letters."""
    if text.isascii():  # the usual case: nothing to decompose or replace
        return text.lower() if text.isprintable() and " " not in text else " ".join(text.lower().split())
    plain = unicodedata.normalize("NFC", text).casefold().translate(_PLAIN)
    if not plain.isascii():  # umlauts are already ASCII
        plain = "".join(
            [letter for letter in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(letter)]
        )
    return " ".join(plain.split())


class SearchTerms(msgspec.Struct, frozen=True):
    """Search terms of an account: names, terms that probably no other account has, and other terms."""

    names: str
    own: list[str]
    others: list[str]


def search_terms(account: Account, external: str) -> SearchTerms:
    """Return the terms of an account. Pure."""
    customers = account.customers[:MOST_CUSTOMERS]
    names = [
        _truncated(_as_name(_plain(f"{customer.given_name or ''} {customer.family_name or ''}")))
        for customer in customers
    ]
    words = " ".join(names).replace(",", " ").split()
    terms = {folded(term)[:MOST_LETTERS] for term in (*_terms(account), external) if term}
    terms.update(words)
    terms.discard("")  # from blanks, or an accent without letter
    own = {*filter(_is_own, terms)}
    others = terms - own
    for word in words:
        others.update(_parts_of(word))
    return SearchTerms("|".join([name for name in names if name]), sorted(own), sorted(others))


def project(seen: Seen) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """Yield (stream, supplier, external account number, names, terms) of an import with a payload. Pure."""
    if seen.body is None:
        return
    account = stored_account(seen.body)
    supplier, external = identity_of(seen.stream)
    terms = search_terms(account, external)
    part = seen.position >> PART_BITS
    own = [f" {part} {term}" for term in terms.own] if part else terms.own
    yield seen.stream, supplier, external, terms.names, own + terms.others


def _is_own(term: str) -> bool:
    """Return whether few accounts have the term, by its form.

    Terms such as e-mail addresses and meter numbers are in random order, so new terms would change every page of the
    index. Such terms are therefore prefixed with a blank and the part of the log, so that new terms are neighbours, and
    searches try every part. Other terms never begin with a blank.
    """
    return (len(term) >= MIN_OWN and not term.isalpha() and _digit_in(term) is not None) or "@" in term


def _truncated(name: str) -> str:
    """Return a folded name with each word cut to the greatest length."""
    return name if len(name) <= MOST_LETTERS else " ".join([word[:MOST_LETTERS] for word in name.split()])


def _parts_of(word: str) -> list[str]:
    """Return all sequences of three letters of a word, marked by ~: terms that find parts of names."""
    return [f"~{word[at : at + MIN_LETTERS]}" for at in range(len(word) - MIN_LETTERS + 1)]


def _terms(account: Account) -> Iterator[str | None]:
    for customer in account.customers:
        yield customer.email
    yield account.billing_postcode
    for address in account.supply_addresses:
        yield address.supply_postcode
        for point in address.supply_points:
            yield point.identifier
            yield from (meter.meter_number for melo in point.melos for meter in melo.meters)
    for instruction in account.payment_instructions:
        if instruction.bank_account is not UNSET and instruction.bank_account.iban:
            yield "".join(instruction.bank_account.iban.split())


class _SearchIndex(Index):
    """The projection of search rows. It follows the log, and skips rows that the append has written."""

    is_ahead = True
    rights = Rights(api="SI", relay="SIUD")

    def unsampled_columns(self, table: str) -> Sequence[str]:
        return ("names", "terms")

    def unwritten(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> Sequence[Seen]:
        """Return the events without first events of streams that already have a row."""
        firsts = [seen.stream for seen in batch if seen.recorded.version == 1]
        if not firsts:
            return batch
        query = SQL("SELECT stream, cardinality(terms) FROM {} WHERE stream = ANY(%s)")
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            written: dict[str, int] = dict(
                cursor.execute(query.format(Identifier(schema, self.name)), (firsts,)).fetchall()
            )
        self._pending_terms += sum(written.values())
        return [seen for seen in batch if seen.recorded.version > 1 or seen.stream not in written]

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        super().load(connection, schema, rows)
        self._pending_terms += sum(len(row[-1]) for row in rows.get(self.name, ()))

    def maintain(self, connection: Connection[Any], *, is_idle: bool) -> None:
        """Flush the pending list of the GIN index if the list is long or the projector is idle.

        Searches read the whole list. If the list became too long, an append would have to flush it while it holds the
        log's lock.
        """
        if self._pending_terms >= (1 if is_idle else MAX_PENDING_TERMS):
            self._pending_terms = 0
            connection.execute("SELECT put_searches_in_order()")

    _pending_terms = 1  # the list may have entries from before this process started


ACCOUNT_SEARCH = _SearchIndex(
    "account_search",
    events=(ImportStaged, ImportReverted, SubjectErased),
    columns="stream text NOT NULL PRIMARY KEY, supplier text NOT NULL, external_account_number text NOT NULL,"
    " names text NOT NULL, terms text[] NOT NULL",
    indexes=("USING gin (terms) WITH (gin_pending_list_limit = 16384)",),  # kB; see `maintain`
    project=project,
    reads_payloads=True,
    edition="9: own terms first, in parts of the log; long ones in part; a payload only where it is first;"
    " dashes as hyphens, and no invisible characters; names without apostrophes, and without e after a, o and u",
)


_NO_TERM = [" "]
"""A list with a term that no account has."""
_COLUMNS: LiteralString = "i.supplier, i.external_account_number, i.status, i.account_number"
_SEARCH: LiteralString = """search AS MATERIALIZED (
        SELECT %(suppliers)s::text[] AS suppliers, %(number)s::text AS number, %(whole)s::text[] AS whole,
               %(own_whole)s::text[] AS own_whole, %(plain_words)s::text[] AS plain_words,
               %(own_word)s::text[] AS own_word, %(words)s::text[] AS words, %(fragments)s::text[] AS fragments,
               %(parts)s::text[] AS parts, %(is_long_enough)s::boolean AS is_long_enough, %(rank)s::integer AS rank,
               %(after)s::text AS after, %(limit)s::bigint AS count
    )"""
"""Parameters of a search as a table, so that Postgres can use a generic plan for all searches."""
_ALLOWED: LiteralString = (
    "((SELECT suppliers IS NULL FROM search) OR {supplier} = ANY((SELECT suppliers FROM search)::text[]))"
)
_IN_EVERY_PART: LiteralString = """ARRAY(
            SELECT unnest({terms}) FROM search
            UNION ALL
            SELECT ' ' || part || ' ' || term FROM parts, search, unnest(search.{own}) AS term
        ) AS {terms}"""
_PARTS: LiteralString = f"""parts AS (
        SELECT generate_series(1, (SELECT max(position) FROM events) >> {PART_BITS}) AS part
    ),
    places AS MATERIALIZED (
        SELECT {_IN_EVERY_PART.replace("{terms}", "whole").replace("{own}", "own_whole")},
               {_IN_EVERY_PART.replace("{terms}", "own_word").replace("{own}", "own_word")}
    )"""  # noqa: S608 - constants
_UNMARKED: LiteralString = "ARRAY(SELECT regexp_replace(term, '^ [0-9]+ ', '') FROM unnest(a.terms) AS term)"
_EXACTLY: LiteralString = f"""(a.terms && (SELECT whole FROM places) OR a.terms @> (SELECT plain_words FROM search)
        OR (a.terms && (SELECT own_word FROM places) AND {_UNMARKED} @> (SELECT words FROM search)))"""  # noqa: S608
"""Condition that the whole text is a term, or that each of its words is a term. A rare word is looked up first."""
_PARTLY: LiteralString = f"""(SELECT is_long_enough FROM search)
          AND (SELECT count(*) FROM exact) < (SELECT count FROM search)
          AND a.terms @> (SELECT parts FROM search) AND a.names LIKE ALL((SELECT fragments FROM search)::text[])
          AND NOT {_EXACTLY}"""  # noqa: S608 - constants
_MATCHING: LiteralString = f"{{which}} AND {_ALLOWED.replace('{supplier}', 'a.supplier')}"
_FIRST: LiteralString = f"""some_{{name}} AS MATERIALIZED (
        SELECT a.stream, a.supplier, a.external_account_number
        FROM account_search AS a
        WHERE {_MATCHING}
          AND ((SELECT rank FROM search), (SELECT after FROM search)) < ({{rank}}, a.stream)
        LIMIT {FEW} + 1
    ),
    {{name}} AS MATERIALIZED (
        (SELECT * FROM some_{{name}}
         WHERE (SELECT count(*) FROM some_{{name}}) <= {FEW}
         ORDER BY stream
         LIMIT (SELECT count FROM search))
        UNION ALL
        (SELECT a.stream, a.supplier, a.external_account_number
         FROM (
            SELECT * FROM account_search
            WHERE stream > (SELECT CASE rank WHEN {{rank}} THEN after ELSE '' END FROM search WHERE rank <= {{rank}})
            ORDER BY stream
            LIMIT (SELECT NULL::bigint FROM search)
         ) AS a
         WHERE {_MATCHING} AND (SELECT count(*) FROM some_{{name}}) > {FEW}
         LIMIT (SELECT count FROM search))
    )"""  # noqa: S608 - constants
"""Template of the matches of one rank for a page.

Few matches are found by their terms and sorted. With many matches, accounts are scanned in the order of streams until
the page is full. Because the planner cannot know the number of matches, the `LIMIT` of a subquery that returns NULL
makes Postgres scan by the key instead of sorting all matches.
"""
_EXACT: LiteralString = _FIRST.replace("{name}", "exact").replace("{rank}", "2").replace("{which}", _EXACTLY)
_PARTIAL: LiteralString = _FIRST.replace("{name}", "partial").replace("{rank}", "3").replace("{which}", _PARTLY)
SELECT_FOUND: LiteralString = f"""
WITH {_SEARCH},
    {_PARTS},
    {_EXACT},
    {_PARTIAL}
SELECT * FROM (
    (SELECT 1 AS rank, 'import/' || i.supplier || '/' || i.external_account_number AS stream, {_COLUMNS}
     FROM platform.service_account AS p
     JOIN import_status AS i ON i.supplier = p.import_supplier AND i.external_account_number = p.external_account_number
     WHERE p.account_number = (SELECT number FROM search) AND {_ALLOWED.replace("{supplier}", "i.supplier")}
       AND (SELECT rank FROM search) < 1)
    UNION ALL
    (SELECT 2 AS rank, a.stream, {_COLUMNS}
     FROM exact AS a JOIN import_status AS i USING (supplier, external_account_number))
    UNION ALL
    (SELECT 3 AS rank, a.stream, {_COLUMNS}
     FROM partial AS a JOIN import_status AS i USING (supplier, external_account_number))
) AS found
ORDER BY rank, stream
LIMIT (SELECT count FROM search)
"""  # noqa: S608 - constants
"""Matches by rank: 1 by account number, 2 by whole terms, 3 by parts of names."""


class SearchPage(msgspec.Struct, frozen=True):
    """Page of found accounts; `next_after` is the parameter of the next page, "" after the last."""

    accounts: list[FoundAccount]
    next_after: str


def search_parameters(text: str, suppliers: Sequence[str] | None, after: str, limit: int) -> dict[str, Any]:
    """Return the parameters of SELECT_FOUND. Raises ValueError for an invalid `after`."""
    whole = folded(text)
    words = [word[:MOST_LETTERS] for word in whole.replace(",", " ").split()]
    forms = [*{form[:MOST_LETTERS] for form in (whole, folded("".join(text.split())))}]
    # A caller does not say whether a double name has a hyphen or a blank.
    parts_of_names = [part for word in words for name in word.split("-") if (part := _as_name(name))]
    own_word = [word for word in words if _is_own(word)][:1] if words != [whole] else []
    rank, stream = _parse_after(after)
    return {
        "suppliers": None if suppliers is None else list(suppliers),
        "number": text.strip().upper(),
        "whole": forms,
        "own_whole": [form for form in forms if _is_own(form)],
        "plain_words": _NO_TERM if own_word or words in ([], [whole]) else words,
        "own_word": own_word,
        "words": words,
        "fragments": ["%" + _escaped(word) + "%" for word in parts_of_names],
        "parts": sorted({part for word in parts_of_names for part in _parts_of(word)}),
        "is_long_enough": any(len(word) >= MIN_LETTERS for word in parts_of_names),
        "rank": rank,
        "after": stream,
        "limit": limit + 1,
    }


def page_of(rows: Sequence[tuple[Any, ...]], limit: int) -> SearchPage:
    """Return the page of rows of SELECT_FOUND.

    SELECT_FOUND returns one row more than `limit` if another page follows.
    """
    accounts = [_account_of_row(*row[2:]) for row in rows[:limit]]
    if len(rows) <= limit:
        return SearchPage(accounts, "")
    rank, stream = rows[limit - 1][:2]
    return SearchPage(accounts, base64.urlsafe_b64encode(f"{rank}{stream}".encode()).decode().rstrip("="))


async def search_accounts(
    connection: AsyncConnection[Any],
    text: str,
    suppliers: Sequence[str] | None,
    *,
    after: str = "",
    limit: int = MAX_FOUND,
) -> SearchPage:
    """Search accounts of suppliers [None: all]. Raises ValueError for an invalid `after`."""
    parameters = search_parameters(text, suppliers, after, limit)
    return page_of(await (await connection.execute(SELECT_FOUND, parameters)).fetchall(), limit)


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def _parse_after(after: str) -> tuple[int, str]:
    """Parse rank and stream of the last account of the previous page. Raises ValueError."""
    if not after:
        return 0, ""
    try:
        text = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)).decode()
    except ValueError as error:
        raise ValueError("this is not the start of a page") from error
    if text[:1] not in ("1", "2", "3") or "\0" in text:
        raise ValueError("this is not the start of a page")
    return int(text[0]), text[1:]


def _account_of_row(supplier: str, external: str, status: ImportState, account_number: str | None) -> FoundAccount:
    return FoundAccount(
        import_supplier=supplier,
        external_account_number=external,
        status=status,
        service_account_number=account_number,
    )
