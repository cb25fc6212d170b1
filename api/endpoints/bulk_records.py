"""Import of records in bulk, one a line: delivery notes, energy amounts and invoices for imported accounts."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from api.admission import Call
from api.bulk.checking import unexpected
from api.bulk.executor import COUNT_TIMEOUT_S
from api.bulk.lines import Line
from api.bulk.receipts import TOO_LONG, Receipt, numbered, refused, whole
from api.endpoints.bulk_batches import TOO_LONG_DETAIL, Batch, BatchWork, Item, waves
from api.http.limits import problems_listed
from api.http.status_codes import sentence_of
from api.intake.record_imports import Attached, Kind, RecordImports, missing_account
from api.intake.staging import UNKNOWN_SUPPLIER
from api.services import Services
from eventstore.aggregates.import_process import ImportProcess, stream_of
from eventstore.aggregates.post_account import RecordDiffers
from eventstore.clock import now
from eventstore.errors import AccountErased, Refused
from eventstore.log.ledger import Decision, Loaded
from market.submission_check import Terms
from projections.platform.change import changing
from projections.retention.reverting import AccountReverted, of_existing
from projections.views.import_supplier import KnownSupplier
from schemas.base import Problem
from schemas.reading.problems import bounded, is_stated
from schemas.reading.shape import NotJson
from schemas.reading.work import TooMuchWork

INVALID = "validation_error"
PORTION = 20
"""Lines that are read and checked together. Shape errors of these lines stay in memory between reading and checking."""

logger = structlog.get_logger()


class RecordItem(Item):
    """Line with a record. It is refused if it has `problems`."""

    envelope: Any = None
    shape_errors: Sequence[Problem] = ()
    problems: Sequence[Problem] = ()
    code: str = INVALID
    dropped: Sequence[str] = ()
    account_number: str = ""
    attached: Attached | None = None

    @property
    def stream(self) -> str:
        return self.attached.stream if self.attached is not None else ""


class RecordWork(BatchWork):
    """The work of one request to …/bulk/ of a kind of records."""

    def __init__(self, services: Services, call: Call, run: str, kind: Kind) -> None:
        super().__init__(services, call, f"create_{kind.field}s", run, "create")
        self._kind = kind
        self._imports = RecordImports(services.ledger)

    async def prepare(self, lines: Sequence[Line]) -> Batch:
        """Read and check the lines."""
        await self._limit.pace(self._call.key, len(lines))
        items: list[RecordItem] = []
        suppliers: dict[str, KnownSupplier] = {}
        listed = 0
        for at in range(0, len(lines), PORTION):
            portion = lines[at : at + PORTION]
            read = await self._executor.in_thread(lambda: [self._item(line) for line in portion])  # noqa: B023
            suppliers |= await self._suppliers_of(read)
            listed += await self._executor.in_thread(self._check, read, suppliers, listed)
            items.extend(read)
        return Batch(items, suppliers)

    async def settle(self, prepared: Batch) -> list[Receipt]:
        """Attach the new records, and return a receipt for each line."""
        settled = await self._executor.in_thread(self._settled, prepared)
        receipts = [await numbered(receipt, item.line) for item, receipt in zip(prepared.items, settled, strict=True)]
        if await self._count_refusals(prepared, receipts) and self._run:
            await self._counts.append(within_s=COUNT_TIMEOUT_S)
        if any(receipt.replayed for receipt in receipts):
            await self._acknowledgements.confirm()
        return receipts

    def _item(self, line: Line) -> RecordItem:
        if line.body is None:
            return RecordItem(line, problems=whole(TOO_LONG, TOO_LONG_DETAIL), code=TOO_LONG)
        try:
            envelope, shape_errors = self._imports.examined(line.body, self._kind)
        except NotJson as error:
            return RecordItem(line, problems=whole("parse_error", error.detail), code="parse_error")
        except TooMuchWork as error:
            return RecordItem(line, problems=whole(TOO_LONG, error.detail), code=TOO_LONG)
        except Exception as error:  # an error of one line must not lose other lines
            logger.exception("a line could not be read", reason=type(error).__name__)
            return RecordItem(line, problems=whole("error", unexpected(error)), code="error")
        return RecordItem(
            line,
            envelope.import_supplier if is_stated("import_supplier", shape_errors) else "",
            envelope.external_account_number if is_stated("external_account_number", shape_errors) else "",
            envelope,
            shape_errors,
        )

    def _check(self, items: Sequence[RecordItem], suppliers: Mapping[str, KnownSupplier], listed_before: int) -> int:
        """Check the items, and set their problems. Return the number of problems listed.

        `listed_before` is the number of problems that earlier items of the batch list.
        """
        listed = 0
        for item in items:
            if item.envelope is None:
                continue
            unknown = [UNKNOWN_SUPPLIER] if item.supplier and item.supplier not in suppliers else []
            entry = suppliers.get(item.supplier)
            terms = entry.terms if entry is not None else Terms()
            try:
                problems, item.dropped = self._imports.check(item.envelope, item.shape_errors, terms, self._kind)
                item.problems = bounded([*unknown, *problems], problems_listed(listed_before + listed))
                listed += len(item.problems)
            except TooMuchWork as error:
                item.problems, item.code = whole(TOO_LONG, error.detail), TOO_LONG
            item.shape_errors = ()  # free memory while the batch waits
        return listed

    def _settled(self, prepared: Batch) -> list[Receipt]:
        valid = [item for item in prepared.items if not item.problems]
        accounts = self._ledger.try_load({stream_of(item.supplier, item.external) for item in valid})
        for item in valid:
            account = accounts[stream_of(item.supplier, item.external)]
            state = account.state if isinstance(account, Loaded) else ImportProcess()
            item.account_number = state.account_number
            if state.account_number:
                assert item.line.body is not None
                item.attached = self._imports.attached(
                    item.envelope, self._kind, item.line.body, state.account_number, item.dropped
                )
            else:
                item.problems = (missing_account(state.status),)
        outcomes: dict[int, Decision] = {}
        for wave in waves([item for item in valid if item.attached is not None]):
            outcomes |= self._appended(wave)
        return [_receipt(item, outcomes.get(item.line.number), self._kind) for item in prepared.items]

    def _appended(self, items: Sequence[RecordItem]) -> dict[int, Decision]:
        """Attach the records of the items, which must all differ. Return the outcomes by line number."""
        if not items:
            return {}
        of_stream = {item.attached.stream: item for item in items if item.attached}
        commands = {stream: item.attached.command for stream, item in of_stream.items() if item.attached}
        payloads = {stream: item.attached.payload for stream, item in of_stream.items() if item.attached}
        changes = {stream: item.attached.change for stream, item in of_stream.items() if item.attached}
        accounts = {(item.supplier, item.account_number) for item in items}
        try:
            outcomes = self._ledger.execute_many(
                commands,
                at=now(),
                by=self._call.by,
                payloads=payloads,
                write_rows=of_existing(accounts, changing(lambda recorded: changes[recorded.stream](recorded))),
            )
        except (AccountErased, AccountReverted) as gone:
            if len(items) == 1:
                return {items[0].line.number: Decision("", None, refusal=gone)}
            return {number: outcome for item in items for number, outcome in self._appended([item]).items()}
        by_line = {of_stream[outcome.stream].line.number: outcome for outcome in outcomes}
        for item in items:
            if isinstance(by_line[item.line.number].refusal, RecordDiffers):
                by_line[item.line.number] = self._as_stored(item)
        return by_line

    def _as_stored(self, item: RecordItem) -> Decision:
        """Attach the record in its stored spelling if the stored record means the same.

        Otherwise return the refusal.
        """
        attached = item.attached
        assert attached is not None
        try:
            command = self._imports.as_stored(attached, self._kind)
            recorded = self._ledger.execute(
                attached.stream,
                command,
                at=now(),
                by=self._call.by,
                payload=attached.payload,
                write_rows=of_existing([(item.supplier, item.account_number)], changing(attached.change)),
            )
        except Refused as refusal:
            return Decision(attached.stream, None, refusal=refusal)
        return Decision(attached.stream, None, recorded)


def _receipt(item: RecordItem, outcome: Decision | None, kind: Kind) -> Receipt:
    number = item.line.number
    if outcome is None:
        return refused(number, item.code, tuple(item.problems), external=item.external)
    if outcome.refusal is not None:
        problem = Problem(f"{kind.field}.non_field_errors", outcome.refusal.code, sentence_of(outcome.refusal))
        return refused(
            number, INVALID, (problem,), external=item.external, service_identifier=item.account_number or None
        )
    return Receipt(
        line=number,
        external_account_number=item.external,
        status="IMPORTED",
        replayed=outcome.recorded is None,
        service_identifier=item.account_number,
    )
