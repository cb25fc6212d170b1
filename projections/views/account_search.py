"""Finding accounts by what people know of them: names in any order, e-mail, postcode, meter, MaLo-ID, IBAN, numbers.

Follows the log, from the newest payload of each import on; who was erased is not found any more. The row of an account
that an api process has just staged is there already (`projections.views.search_at_once`).
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

from eventstore.aggregates.import_process import ImportStaged, SubjectErased, identity_of
from eventstore.operations.rights import Rights
from projections.versions.following import Index
from projections.versions.projection import Rows
from projections.versions.reading import Seen
from schemas.account import Account
from schemas.status import FoundAccount, ImportState
from schemas.submission import stored_account

MAX_FOUND = 50
FEW = 1_000
"""As many accounts are put in order for a page; of more, fifty are soon met in the order that there is."""
MIN_LETTERS = 3
"""Shorter parts of names find too much. One word of a search has as many."""
MOST_LETTERS = 500
"""Of longer terms so many count: an entry of the index may have 2,700 bytes, and a letter has four at most. A name of
255 letters may have thousands once it is folded.
"""
PART_BITS = 19
"""The log in parts of so many events, 175,000 accounts: what only one account has is kept part by part."""
GATHERED = 250_000
"""So many new terms, of ten thousand accounts, the index may gather before they are put in order."""
MOST_CUSTOMERS = 100
"""So many customers of an account are found: names become longer when they are folded, 18 times at most."""
_digit_in = re.compile(r"\d").search
MIN_OWN = 6
"""Terms with a digit that are as long as this are most likely one account's own; postcodes are shorter."""


_PLAIN = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "æ": "ae", "œ": "oe", "ø": "o", "ı": "i", "ł": "l", "đ": "d", "ð": "d", "þ": "th"}
    | dict.fromkeys("’‘‛ʼʻʹ′´＇", "'")
)
"""Letters as people type them who do not have them on their keyboard, where they are no letter and an accent."""
_without_e = partial(re.compile("(?<=[aou])e+").sub, "")


def folded(text: str) -> str:
    """Return the text as it is compared: the one rule for what is searched and for what is searched for.

    Case, accents and further blanks do not count. In words, neither do apostrophes and an e after a, o or u, since an
    umlaut is written as itself, with an e or without: "Müller", "Mueller" and "Muller" are "muller", "O’Brien" is
    "obrien", "Groß" "gross", "Yılmaz" "yilmaz". Numbers and e-mail addresses keep their letters.
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
    """Return whether a text is, or has in it, something that is compared letter by letter."""
    return plain[-1:].isdecimal() or "@" in plain or _digit_in(plain) is not None


def _plain(text: str) -> str:
    """Return the text without case and accents, with umlauts as two letters and single blanks."""
    if text.isascii():  # most terms are; nothing is taken apart or replaced in them
        return text.lower() if text.isprintable() and " " not in text else " ".join(text.lower().split())
    plain = unicodedata.normalize("NFC", text).casefold().translate(_PLAIN)
    if not plain.isascii():  # as umlauts are by now
        plain = "".join(
            [letter for letter in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(letter)]
        )
    return " ".join(plain.split())


class SearchTerms(msgspec.Struct, frozen=True):
    """What an account is found by: its names, what is its own as far as that can be told, and its other terms."""

    names: str
    own: list[str]
    others: list[str]


def search_terms(account: Account, external: str) -> SearchTerms:
    """The terms of an account. Pure."""
    customers = account.customers[:MOST_CUSTOMERS]
    names = [_cut(_as_name(_plain(f"{one.given_name or ''} {one.family_name or ''}"))) for one in customers]
    words = " ".join(names).replace(",", " ").split()
    terms = {folded(term)[:MOST_LETTERS] for term in (*_terms(account), external) if term}
    terms.update(words)
    terms.discard("")  # blanks, or an accent alone
    own = {*filter(_is_own, terms)}
    others = terms - own
    for word in words:
        others.update(_parts_of(word))
    return SearchTerms("|".join([name for name in names if name]), sorted(own), sorted(others))


def project(seen: Seen) -> Iterator[tuple[str, str, str, str, list[str]]]:
    """(stream, supplier, external account number, names, terms) of an import that has a payload. Pure."""
    if seen.body is None:
        return
    account = stored_account(seen.body)
    supplier, external = identity_of(seen.stream)
    terms = search_terms(account, external)
    part = seen.position >> PART_BITS
    own = [f" {part} {term}" for term in terms.own] if part else terms.own
    yield seen.stream, supplier, external, terms.names, own + terms.others


def _is_own(term: str) -> bool:
    """Whether a term is one that few accounts have, as far as it can be told from the term alone.

    E-mail addresses, meters and the like are in no order. Kept as they are, those of new accounts would lie on every
    page of the index, each of which would be written again for a few of them; the terms of a part lie together. Who
    looks for one looks in every part. No term begins with a blank, so no other one looks like a marked one.
    """
    return (len(term) >= MIN_OWN and not term.isalpha() and _digit_in(term) is not None) or "@" in term


def _cut(name: str) -> str:
    """A folded name, with so much of each word as counts."""
    return name if len(name) <= MOST_LETTERS else " ".join([word[:MOST_LETTERS] for word in name.split()])


def _parts_of(word: str) -> list[str]:
    """Every three letters of a word, marked: the terms by which an index leads to names that it is a part of."""
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
    """The rows that follow the log: those that are not there yet."""

    is_ahead = True
    rights = Rights(api="SI", relay="SIUD")

    def unsampled_columns(self, table: str) -> Sequence[str]:
        return ("names", "terms")

    def unwritten(self, connection: Connection[Any], schema: str, batch: Sequence[Seen]) -> Sequence[Seen]:
        """Without the first events of streams that have a row, which is of such an event or of a later one."""
        firsts = [seen.stream for seen in batch if seen.recorded.version == 1]
        if not firsts:
            return batch
        query = SQL("SELECT stream, cardinality(terms) FROM {} WHERE stream = ANY(%s)")
        with connection.cursor(binary=True, row_factory=tuple_row) as cursor:
            written: dict[str, int] = dict(
                cursor.execute(query.format(Identifier(schema, self.name)), (firsts,)).fetchall()
            )
        self._gathered += sum(written.values())
        return [seen for seen in batch if seen.recorded.version > 1 or seen.stream not in written]

    def load(self, connection: Connection[Any], schema: str, rows: Rows) -> None:
        super().load(connection, schema, rows)
        self._gathered += sum(len(row[-1]) for row in rows.get(self.name, ()))

    def put_in_order(self, connection: Connection[Any], *, is_idle: bool) -> None:
        """Have the index's list of new entries put in order, where it is long or there is time.

        Searches read all of the list. A long one is dear once and a short one each time; and whoever makes it too long
        puts it in order: that would be an append, with the log's lock in its hands.
        """
        if self._gathered >= (1 if is_idle else GATHERED):
            self._gathered = 0
            connection.execute("SELECT put_searches_in_order()")

    _gathered = 1  # whatever was left by who followed before


ACCOUNT_SEARCH = _SearchIndex(
    "account_search",
    events=(ImportStaged, SubjectErased),
    columns="stream text NOT NULL PRIMARY KEY, supplier text NOT NULL, external_account_number text NOT NULL,"
    " names text NOT NULL, terms text[] NOT NULL",
    indexes=("USING gin (terms) WITH (gin_pending_list_limit = 16384)",),  # kB; see `put_in_order`
    project=project,
    reads_payloads=True,
    edition="8: own terms first, in parts of the log; long ones in part; a payload only where it is first;"
    " names without apostrophes, and without e after a, o and u",
)


_NO_TERM = [" "]
"""Terms that no account has: none begins with a blank, and a mark does not end with it."""
_COLUMNS: LiteralString = "i.supplier, i.external_account_number, i.status, i.account_number"
_ASKED: LiteralString = """asked AS MATERIALIZED (
        SELECT %(suppliers)s::text[] AS suppliers, %(number)s::text AS number, %(whole)s::text[] AS whole,
               %(own_whole)s::text[] AS own_whole, %(plain_words)s::text[] AS plain_words,
               %(own_word)s::text[] AS own_word, %(words)s::text[] AS words, %(fragments)s::text[] AS fragments,
               %(parts)s::text[] AS parts, %(is_long_enough)s::boolean AS is_long_enough, %(rank)s::integer AS rank,
               %(after)s::text AS after, %(limit)s::bigint AS count
    )"""
"""Postgres plans the same whatever is asked, and so plans but once: that took twice as long as to find an account."""
_ALLOWED: LiteralString = (
    "((SELECT suppliers IS NULL FROM asked) OR {supplier} = ANY((SELECT suppliers FROM asked)::text[]))"
)
_IN_EVERY_PART: LiteralString = """ARRAY(
            SELECT unnest({terms}) FROM asked
            UNION ALL
            SELECT ' ' || part || ' ' || term FROM parts, asked, unnest(asked.{own}) AS term
        ) AS {terms}"""
_PLACES: LiteralString = f"""parts AS (
        SELECT generate_series(1, (SELECT max(position) FROM events) >> {PART_BITS}) AS part
    ),
    places AS MATERIALIZED (
        SELECT {_IN_EVERY_PART.replace("{terms}", "whole").replace("{own}", "own_whole")},
               {_IN_EVERY_PART.replace("{terms}", "own_word").replace("{own}", "own_word")}
    )"""  # noqa: S608 - constants
_UNMARKED: LiteralString = "ARRAY(SELECT regexp_replace(term, '^ [0-9]+ ', '') FROM unnest(a.terms) AS term)"
_EXACTLY: LiteralString = f"""(a.terms && (SELECT whole FROM places) OR a.terms @> (SELECT plain_words FROM asked)
        OR (a.terms && (SELECT own_word FROM places) AND {_UNMARKED} @> (SELECT words FROM asked)))"""  # noqa: S608
"""All of the text as one term, or each of its words: by the index of all at once, or first of one that few have."""
_PARTLY: LiteralString = f"""(SELECT is_long_enough FROM asked)
          AND (SELECT count(*) FROM exact) < (SELECT count FROM asked)
          AND a.terms @> (SELECT parts FROM asked) AND a.names LIKE ALL((SELECT fragments FROM asked)::text[])
          AND NOT {_EXACTLY}"""  # noqa: S608 - constants
_MATCHING: LiteralString = f"{{which}} AND {_ALLOWED.replace('{supplier}', 'a.supplier')}"
_FIRST: LiteralString = f"""some_{{name}} AS MATERIALIZED (
        SELECT a.stream, a.supplier, a.external_account_number
        FROM account_search AS a
        WHERE {_MATCHING}
          AND ((SELECT rank FROM asked), (SELECT after FROM asked)) < ({{rank}}, a.stream)
        LIMIT {FEW} + 1
    ),
    {{name}} AS MATERIALIZED (
        (SELECT * FROM some_{{name}}
         WHERE (SELECT count(*) FROM some_{{name}}) <= {FEW}
         ORDER BY stream
         LIMIT (SELECT count FROM asked))
        UNION ALL
        (SELECT a.stream, a.supplier, a.external_account_number
         FROM (
            SELECT * FROM account_search
            WHERE stream > (SELECT CASE rank WHEN {{rank}} THEN after ELSE '' END FROM asked WHERE rank <= {{rank}})
            ORDER BY stream
            LIMIT (SELECT NULL::bigint FROM asked)
         ) AS a
         WHERE {_MATCHING} AND (SELECT count(*) FROM some_{{name}}) > {FEW}
         LIMIT (SELECT count FROM asked))
    )"""  # noqa: S608 - constants
"""Only so many are looked up as a page has, however many there are.

A few are found by their terms and put in order; more are come by soon enough in the order of streams, in which they
are looked at: a limit that is none, as only the answer to a question says, lets Postgres go by the key instead of
putting all in order first. It cannot know which of both it is, and would go through all accounts for the one that has
a term, or through all that have a usual one.
"""
_EXACT: LiteralString = _FIRST.replace("{name}", "exact").replace("{rank}", "2").replace("{which}", _EXACTLY)
_PARTIAL: LiteralString = _FIRST.replace("{name}", "partial").replace("{rank}", "3").replace("{which}", _PARTLY)
SELECT_FOUND: LiteralString = f"""
WITH {_ASKED},
    {_PLACES},
    {_EXACT},
    {_PARTIAL}
SELECT * FROM (
    (SELECT 1 AS rank, 'import/' || i.supplier || '/' || i.external_account_number AS stream, {_COLUMNS}
     FROM platform.service_account AS p
     JOIN import_status AS i ON i.supplier = p.import_supplier AND i.external_account_number = p.external_account_number
     WHERE p.account_number = (SELECT number FROM asked) AND {_ALLOWED.replace("{supplier}", "i.supplier")}
       AND (SELECT rank FROM asked) < 1)
    UNION ALL
    (SELECT 2 AS rank, a.stream, {_COLUMNS}
     FROM exact AS a JOIN import_status AS i USING (supplier, external_account_number))
    UNION ALL
    (SELECT 3 AS rank, a.stream, {_COLUMNS}
     FROM partial AS a JOIN import_status AS i USING (supplier, external_account_number))
) AS found
ORDER BY rank, stream
LIMIT (SELECT count FROM asked)
"""  # noqa: S608 - constants
"""First the account with this number, then those that the text names exactly, then those with it in a name."""


class SearchPage(msgspec.Struct, frozen=True):
    """What a search has found; `next_after` is where the next page begins, "" when there is none."""

    accounts: list[FoundAccount]
    next_after: str


def search_parameters(text: str, suppliers: Sequence[str] | None, after: str, limit: int) -> dict[str, Any]:
    """The parameters of SELECT_FOUND. Raises ValueError for an `after` that no page has given."""
    whole = folded(text)
    words = [word[:MOST_LETTERS] for word in whole.replace(",", " ").split()]
    forms = [*{form[:MOST_LETTERS] for form in (whole, folded("".join(text.split())))}]
    parts_of_names = [part for word in words if (part := _as_name(word))]
    own_word = [word for word in words if _is_own(word)][:1] if words != [whole] else []
    rank, stream = _place(after)
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
    """The page that rows of SELECT_FOUND make; they are one more than `limit` where another page follows."""
    accounts = [_found(*row[2:]) for row in rows[:limit]]
    if len(rows) <= limit:
        return SearchPage(accounts, "")
    rank, stream = rows[limit - 1][:2]
    return SearchPage(accounts, base64.urlsafe_b64encode(f"{rank}{stream}".encode()).decode().rstrip("="))


async def found_accounts(
    connection: AsyncConnection[Any],
    text: str,
    suppliers: Sequence[str] | None,
    *,
    after: str = "",
    limit: int = MAX_FOUND,
) -> SearchPage:
    """A page of the accounts of these suppliers that the text names. Raises ValueError."""
    parameters = search_parameters(text, suppliers, after, limit)
    return page_of(await (await connection.execute(SELECT_FOUND, parameters)).fetchall(), limit)


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def _place(after: str) -> tuple[int, str]:
    """Rank and stream of the last account of the page before."""
    if not after:
        return 0, ""
    try:
        text = base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)).decode()
    except ValueError as error:
        raise ValueError("no page ends there") from error
    if text[:1] not in ("1", "2", "3") or "\0" in text:
        raise ValueError("no page ends there")
    return int(text[0]), text[1:]


def _found(supplier: str, external: str, status: ImportState, account_number: str | None) -> FoundAccount:
    return FoundAccount(
        import_supplier=supplier,
        external_account_number=external,
        status=status,
        service_account_number=account_number,
    )
