"""Rows of `account_search` that an api process writes in the transaction that stages an account.

A new account is therefore found immediately, and its payload need not be decrypted again for its terms. Only the first
event of a stream writes a row; rows for later events, and for other processes' accounts, follow the log.
"""

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg.sql import SQL, Composable, Identifier, Literal

from eventstore.aggregates.aggregate import Event
from eventstore.aggregates.import_process import ImportStaged, identity_of
from eventstore.events import Recorded
from eventstore.log.arrays import Written, arrays_of
from eventstore.log.payloads import Payload
from projections.views.account_search import ACCOUNT_SEARCH, PART_BITS, search_terms
from schemas.account import Account

MOST_BYTES, MOST_LETTERS, MOST_TERMS = 64 * 1024, 200, 100
"""Limits of an account whose row is written with the append: bytes of the body, letters of names, terms.

The row of a larger account follows the log, because writing it with the append would delay other requests and hold the
log's lock.
"""
_MARK = "\x1f"
"""Separator before each term. Terms cannot contain the separator, because `folded` treats it as a blank."""
_TEXTS = ("stream", "supplier", "external_account_number", "names", "own", "others")
_INSERT: LiteralString = f"""
INSERT INTO {{table}} (stream, supplier, external_account_number, names, terms)
SELECT n.stream, n.supplier, n.external_account_number, n.names,
       string_to_array(substr(replace(n.own, chr(31), part.mark) || n.others, 2), chr(31))
FROM appended, unnest({{arrays}}) AS n ({{names}}),
     LATERAL (
        SELECT chr(31) || coalesce(' ' || nullif((appended.base + n.place) >> {PART_BITS}, 0) || ' ', '')
     ) AS part (mark)
WHERE EXISTS (
    SELECT FROM projection_versions WHERE name = {{name}} AND state = 'live' AND definition = {{definition}}
)
ON CONFLICT DO NOTHING"""  # noqa: S608 - constants
"""Insert into a table of this code's definition. A table of another release only follows the log."""


def view_values_of(body: bytes, account: Account) -> tuple[str, ...] | None:
    """Return the account's search terms for `Payload.view_values`: names, terms of this account only, other terms.

    Returns None for a large body, very many terms, or very long names.
    """
    if len(body) > MOST_BYTES:  # check the size before any work on the content
        return None
    if (
        sum(len(name or "") for person in account.customers for name in (person.given_name, person.family_name))
        > MOST_LETTERS
    ):
        return None
    terms = search_terms(account, account.external_account_number)
    if len(terms.own) + len(terms.others) > MOST_TERMS:
        return None
    return terms.names, *("".join([_MARK + term for term in some]) for some in (terms.own, terms.others))


class SearchAtOnce:
    """An `InlineView` on the table of a `Following` projection."""

    name = ACCOUNT_SEARCH.name
    events: frozenset[type[Event]] = frozenset({ImportStaged})

    def __init__(self) -> None:
        columns = {**dict.fromkeys(_TEXTS, "text"), "place": "bigint"}
        self._arrays = {f"{self.name}_{column}": kind for column, kind in columns.items()}
        arrays = ", ".join(f"%({name})b::{kind}[]" for name, kind in self._arrays.items())
        self.upsert: Composable = SQL(_INSERT).format(
            table=Identifier(self.name),
            arrays=SQL(arrays),
            names=SQL(", ").join(map(Identifier, columns)),
            name=Literal(self.name),
            definition=Literal(ACCOUNT_SEARCH.definition),
        )

    def project(self, recorded: Recorded, position: int, payload: Payload | None = None) -> tuple[Any, ...] | None:
        """Return the row of a stream's first event whose payload has search terms. Pure."""
        if recorded.version != 1 or payload is None or payload.view_values is None:
            return None
        return recorded.stream, *identity_of(recorded.stream), *payload.view_values, position

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, Written]:
        return arrays_of(self._arrays, rows)


SEARCH_AT_ONCE = SearchAtOnce()
