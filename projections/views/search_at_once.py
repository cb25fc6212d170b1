"""Rows of `account_search` that are written in the append's transaction, by who stages an account and has it at hand.

Who posts and then searches finds the account, and nobody opens its payload again to find out its terms. It is written
once for each stream, with its first event; all that comes later follows the log, as does what others stage.
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
"""Of an account with more, the row is left to who follows: the api's other callers would wait while it is folded, and
an append writes it with the log's lock in its hands.
"""
_MARK = "\x1f"
"""Stands before each term of a text. No term has it, since it is a blank to `folded`."""
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
"""Only into a table of this code's form: another release keeps its own by following, and would meet these rows."""


def noted_of(body: bytes, account: Account) -> tuple[str, ...] | None:
    """What the payload of a body notes of its account: its names, terms of its own, and other terms. Pure.

    None for a large body, an account with very many terms, or very long names.
    """
    if len(body) > MOST_BYTES:  # before anything of it is gone through or folded
        return None
    if sum(len(one.given_name or "") + len(one.family_name or "") for one in account.customers) > MOST_LETTERS:
        return None
    terms = search_terms(account, account.external_account_number)
    if len(terms.own) + len(terms.others) > MOST_TERMS:
        return None
    return terms.names, *("".join([_MARK + term for term in some]) for some in (terms.own, terms.others))


class SearchAtOnce:
    """An `InlineView` of rows that a `Following` keeps up."""

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
        """The row of a stream's first event whose payload notes what its account is found by. Pure."""
        if recorded.version != 1 or payload is None or payload.noted is None:
            return None
        return recorded.stream, *identity_of(recorded.stream), *payload.noted, position

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> dict[str, Written]:
        return arrays_of(self._arrays, rows)


SEARCH_AT_ONCE = SearchAtOnce()
