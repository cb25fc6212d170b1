"""The lists and the payload of an import's page, each a page of its own of what there is."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from api.http.beside import beside
from api.http.errors import query_not_valid
from api.http.limits import MAX_ANSWER_BYTES
from console.access.visit import Visit
from console.presentation.payload_tree import PayloadTree, payload_tree, shown_value
from console.screens.paging import Pages, PlaceNumber, PlaceText, no_place, pages, place_in
from eventstore.aggregates.import_process import ImportStaged, SubjectErased
from eventstore.events import Recorded, Unreadable
from projections.queries.account_parts import PAGE, AttachedRecord, attached_records, platform_records
from projections.queries.history import TimeLine, account_time_line, newest_of_import
from projections.unlogged.refused_attempts import ListedAttempt, attempts_page
from redaction.masking import masked_path, masked_tree
from schemas.base import Problem
from schemas.difference import FieldChange, bounded_difference
from schemas.reading.work import COMPARED
from schemas.sentence import Sentence

EVENTS_AT_ONCE = 100
ATTEMPTS_AT_ONCE = 50
VERSIONS_AT_ONCE = 50
CHANGES_AT_ONCE = 200
"""What a page shows of each list; the next page goes on."""
_AFTER_ALL = 10**18
_NO_VERSION = Sentence("Choose two payloads that were sent.", "Bitte zwei gesendete Inhalte auswählen.")


class TablePlace(msgspec.Struct, frozen=True, array_like=True):
    """After which row of which table a page begins."""

    table: PlaceText
    row: tuple[PlaceText | Annotated[int, Meta(ge=0, lt=2**31)], ...]


class Past(msgspec.Struct, frozen=True):
    """The events of an import up to a position, those that can be read."""

    own: list[Recorded]

    @property
    def staged(self) -> list[Recorded]:
        """The events that brought a payload, the newest first."""
        return [one for one in reversed(self.own) if isinstance(one.event, ImportStaged)]

    @property
    def since_staged(self) -> list[Recorded]:
        own = self.own
        last = max((n for n, one in enumerate(own) if isinstance(one.event, ImportStaged)), default=0)
        return own[last:]

    @property
    def is_erased(self) -> bool:
        return any(isinstance(one.event, SubjectErased) for one in self.own)


async def past_of(connection: Any, supplier: str, external: str, upto: int | None) -> Past:
    """What happened to an import until then."""
    events = await newest_of_import(connection, supplier, external, upto)
    return Past([one for one in events if not isinstance(one.event, Unreadable)])


async def line_of_page(visit: Visit, supplier: str, external: str, upto: int | None) -> tuple[TimeLine, Pages]:
    """A page of what happened to the account, the newest first, and the ways on."""
    before = place_in(visit, "before", PlaceNumber) or _AFTER_ALL

    async def asked(connection: Any) -> TimeLine:
        return await account_time_line(connection, supplier, external, upto, before=before, limit=EVENTS_AT_ONCE)

    line = await visit.read(asked)
    return line, pages(visit, "before", line.next_before or None, anchor="line")


async def attempts_of_page(visit: Visit, supplier: str, external: str) -> tuple[list[ListedAttempt], Pages]:
    """A page of the refused attempts, and the ways on."""
    before = place_in(visit, "attempts-before", PlaceNumber) or _AFTER_ALL

    async def asked(connection: Any) -> list[ListedAttempt]:
        return await attempts_page(connection, supplier, external, before=before, limit=ATTEMPTS_AT_ONCE + 1)

    rows = await visit.read(asked)
    more = rows[ATTEMPTS_AT_ONCE - 1].number if len(rows) > ATTEMPTS_AT_ONCE else None
    return rows[:ATTEMPTS_AT_ONCE], pages(visit, "attempts-before", more, anchor="attempts")


async def records_of_page(visit: Visit, supplier: str, external: str) -> tuple[list[AttachedRecord], Pages]:
    """A page of what was attached to the account, and the ways on."""
    after = place_in(visit, "records-after", tuple[datetime, PlaceText])

    async def asked(connection: Any) -> list[AttachedRecord]:
        return await attached_records(connection, supplier, external, after=after, limit=PAGE + 1)

    rows = await visit.read(asked)
    more = rows[PAGE - 1].place if len(rows) > PAGE else None
    return rows[:PAGE], pages(visit, "records-after", more, anchor="records-head")


async def tables_of_page(visit: Visit, number: str, *, is_clear: bool) -> list[dict[str, Any]]:
    """The platform's rows of the account, those of one table from the place that is asked for."""
    after = place_in(visit, "rows-after", TablePlace)
    try:
        tables = await visit.read(platform_records, number, (after.table, after.row) if after else None)
    except ValueError as error:
        raise no_place("rows-after") from error
    return [
        _table(table, is_clear=is_clear)
        | {
            "is_open": after is not None and after.table == table.table,
            "more": pages(
                visit,
                "rows-after",
                (table.table, table.next_after) if table.next_after else None,
                anchor=f"t-{table.table}",
                has_begun=after is not None and after.table == table.table,
            ),
        }
        for table in tables
    ]


def versions_of_page(visit: Visit, past: Past) -> tuple[list[Recorded], Pages]:
    """A page of the events that brought a payload, the newest first, and the ways on."""
    before = place_in(visit, "versions-before", PlaceNumber) or _AFTER_ALL
    versions = [one for one in past.staged if one.version < before]
    more = versions[VERSIONS_AT_ONCE - 1].version if len(versions) > VERSIONS_AT_ONCE else None
    return versions[:VERSIONS_AT_ONCE], pages(visit, "versions-before", more, anchor="compare")


async def tree_of_page(
    visit: Visit, past: Past, errors: tuple[Problem, ...], warnings: tuple[Problem, ...], *, is_clear: bool
) -> tuple[PayloadTree | None, int]:
    """The payload that is asked for by its event's version, or the newest; None where it was erased."""
    asked = visit.query("payload")
    chosen = next((one for one in past.staged if str(one.version) == asked), past.staged[0])
    body = await _body(visit, chosen)
    if body is None:
        return None, chosen.version
    is_newest = chosen is past.staged[0]
    problems = (errors, warnings) if is_newest else ((), ())
    after = place_in(visit, "tree-after", PlaceNumber) or 0
    return await beside(body, _built, body, *problems, is_clear, after), chosen.version


def _built(
    body: bytes, errors: tuple[Problem, ...], warnings: tuple[Problem, ...], is_clear: bool, after: int
) -> PayloadTree:
    return payload_tree(body, errors, warnings, is_clear=is_clear, after=after)


async def _body(visit: Visit, staged: Recorded) -> bytes | None:
    assert isinstance(staged.event, ImportStaged)
    digests = {staged.stream: staged.event.payload_sha256}
    bodies = await visit.written(visit.services.ledger.payloads, digests)
    return bodies.get(staged.stream)


async def changes_of_page(visit: Visit, past: Past, *, is_clear: bool) -> tuple[list[FieldChange] | None, Pages]:
    """A page of what differs between the payloads that are asked for, and the ways on; None where none are."""
    wanted, after = [visit.query("from"), visit.query("to")], place_in(visit, "changes-after", PlaceNumber) or 0
    if not any(wanted):
        return None, pages(visit, "changes-after", None)
    by_version = {str(one.version): one for one in past.staged}
    if any(version not in by_version for version in wanted):
        raise query_not_valid(Problem("from", "invalid_choice", _NO_VERSION))
    bodies = [await _body(visit, by_version[version]) for version in wanted]
    if bodies[0] is None or bodies[1] is None:
        return [], pages(visit, "changes-after", None)
    compared = await beside(max(bodies, key=len), bounded_difference, *bodies, COMPARED, MAX_ANSWER_BYTES)  # type: ignore[arg-type]
    changes = msgspec.json.decode(compared, type=list[FieldChange])[after:]
    shown = [one if is_clear else _masked_change(one) for one in changes[:CHANGES_AT_ONCE]]
    more = after + CHANGES_AT_ONCE if len(changes) > CHANGES_AT_ONCE else None
    return [_in_words(one) for one in shown], pages(visit, "changes-after", more, anchor="compare")


def _in_words(change: FieldChange) -> FieldChange:
    """Both sides as a page shows values of JSON."""
    before, after = (None if one is None else shown_value(one) for one in (change.before, change.after))
    return msgspec.structs.replace(change, before=before, after=after)


def _masked_change(change: FieldChange) -> FieldChange:
    """The place decides, as in a payload; what stands there may be a whole object."""
    path = tuple(change.path.split("."))
    before, after = (None if one is None else masked_tree(one, path=path) for one in (change.before, change.after))
    return msgspec.structs.replace(change, path=".".join(masked_path(path)), before=before, after=after)


def _table(table: Any, *, is_clear: bool) -> dict[str, Any]:
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    masked = rows if is_clear else [masked_tree(row) for row in rows]
    rows = [{name: shown_value(value) for name, value in row.items()} for row in masked]
    return {"name": table.table, "columns": table.columns, "rows": rows, "is_cut": bool(table.next_after)}
