"""What a run adds up to, by the workers of all machines: cut into parts, added up part by part, and put together."""

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import msgspec
from psycopg import Connection
from psycopg.rows import tuple_row

from projections.import_run import RunPlace
from projections.inquiries import answer
from projections.platform.adding_up import run_portion
from projections.platform.totals import Totals
from projections.spreading.asking import WantedJob
from projections.spreading.looking import Done, look
from projections.spreading.pieces import JobPiece, TotalsPiece
from schemas.job_progress import JobProgress

KIND = "reconcile"
ACCOUNTS_A_PART = 5_000
"""Some seconds of work."""
MAX_PARTS = 1_000
MAX_COUNTED = 1_000_000
"""A run of more accounts is cut at even distances instead of after so many accounts: counting would take too long."""

Cuts = Sequence[tuple[int, int]]
"""Positions behind which a run is cut, each with how many accounts joined up to there."""

_SELECT_ENDS = "SELECT min(position), max(position) FROM import_run_account WHERE supplier = %s AND run = %s"
_SELECT_CUTS = """
SELECT position, max(number)
FROM (
    SELECT position, row_number() OVER (ORDER BY position, external_account_number) AS number
    FROM import_run_account
    WHERE supplier = %(supplier)s AND run = %(run)s
) AS account
WHERE number %% %(size)s = 0
GROUP BY position
ORDER BY position
"""


class AddedUp(msgspec.Struct, frozen=True):
    """What all parts came to; `job` is over when it was used."""

    job: str
    totals: Totals


def spread_totals(
    connection: Connection[Any], supplier: str, run: str, *, accounts: int, reached: int
) -> JobProgress | AddedUp:
    """What the run adds up to, or how far the workers are; they begin when this is asked first. Raises NotSpread.

    `accounts` is about how many the run has, and `reached` the position of the last event that it follows from.
    """

    def wanted() -> WantedJob:
        cuts = _cuts(connection, supplier, run, accounts)
        return WantedJob(reached, pieces_at(supplier, run, cuts, accounts))

    looked = look(connection, KIND, {"supplier": supplier, "run": run}, reached, wanted)
    if isinstance(looked, Done):
        return AddedUp(looked.job, merged(looked.results))
    return looked


def _cuts(connection: Connection[Any], supplier: str, run: str, accounts: int) -> Cuts:
    with connection.cursor(row_factory=tuple_row) as cursor:
        if accounts <= MAX_COUNTED:
            of_run = {"supplier": supplier, "run": run, "size": ACCOUNTS_A_PART}
            return cursor.execute(_SELECT_CUTS, of_run).fetchall()
        first, last = cursor.execute(_SELECT_ENDS, (supplier, run)).fetchone() or (None, None)
    return [] if first is None else even_cuts(first, last, accounts, min(MAX_PARTS, accounts // ACCOUNTS_A_PART))


def even_cuts(first: int, last: int, accounts: int, parts: int) -> Cuts:
    """About so many parts of positions that are equally long, as if the accounts lay evenly among them. Pure."""
    length = last - first + 1
    at = {first + length * part // parts - 1: accounts * part // parts for part in range(1, parts)}
    return sorted(at.items())


def pieces_at(supplier: str, run: str, cuts: Cuts, accounts: int) -> list[tuple[JobPiece, int]]:
    """The parts of a run that is cut there, each with how many accounts it has. Pure.

    What joins the run behind the last cut belongs to the last part.
    """
    ends = [(-1, 0), *cuts]
    within = [
        (TotalsPiece(supplier, run, after + 1, last), upto - before) for (after, before), (last, upto) in pairwise(ends)
    ]
    after, before = ends[-1]
    return [*within, (TotalsPiece(supplier, run, after + 1, None), max(0, accounts - before))]


def add_up_piece(connection: Connection[Any], piece: TotalsPiece, breathe: Callable[[], None]) -> Totals:
    """What a part adds up to, portion by portion; `breathe` is called before each."""
    totals = Totals()
    place: RunPlace | None = (piece.first, "")
    while place is not None:
        breathe()
        portion, place = answer(connection, run_portion(piece.supplier, piece.run, place, upto=piece.last))
        totals = totals.merge(portion)
    return totals


def merged(results: Iterable[str]) -> Totals:
    """What the results of all parts add up to. Pure."""
    return reduce(Totals.merge, (msgspec.json.decode(result, type=Totals) for result in results), Totals())
