"""Accounts in bulk: checked like single accounts, staged in one transaction per batch.

An account that was accepted before with the same bytes is recognised by its digest and not checked again, so sending a
whole file again takes little time. Batches are prepared concurrently and settled in order: of two lines for the same
account, the later line replaces the earlier line, as in two requests.
"""

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence

import msgspec

from api.admission import Call
from api.bulk.checking import INVALID, CheckedLine, CheckRequest
from api.bulk.executor import COUNT_TIMEOUT_S
from api.bulk.lines import Line
from api.bulk.receipts import TOO_LONG, Receipt, numbered, refused, warned_of, whole
from api.endpoints.bulk_batches import TOO_LONG_DETAIL, Batch, BatchWork, Item, waves
from api.http.status_codes import sentence_of
from api.intake.run_names import TOO_MANY, TOO_MANY_DETAIL
from api.intake.staging import not_ongoing
from api.services import Services
from eventstore.aggregates.import_process import ImportProcess, is_same_content, stream_of
from eventstore.aggregates.run import Mode
from eventstore.clock import now
from eventstore.errors import AccountErased, AlreadyImported, ImportInProgress, Refused, StreamUnreadable
from eventstore.log.ledger import Decision, Loaded
from projections.views.import_supplier import KnownSupplier
from schemas.base import Problem
from telemetry.measures import measures

_COMPARED_BATCHES = 8
"""Number of settled batches whose changes are compared with the state that a prepared batch has read."""


class _Names(msgspec.Struct, gc=False):
    """Fields that identify the account of a line, read without other checks."""

    import_supplier: str = ""
    external_account_number: str = ""
    payload: "_Names | None" = None
    task_params: "_Task | None" = None


class _Task(msgspec.Struct, gc=False):
    is_dry_run: bool = False


_names = msgspec.json.Decoder(_Names).decode


class AccountItem(Item):
    """Line with an account. `before` is the account's state when the batch was prepared."""

    is_dry_run: bool = False
    before: Loaded | StreamUnreadable | None = None
    is_replay: bool = False
    checked: CheckedLine | None = None

    @property
    def stream(self) -> str:
        return stream_of(self.supplier, self.external) if self.supplier and self.external else ""


class AccountWork(BatchWork):
    """The work of one request to …/accounts/bulk/."""

    def __init__(self, services: Services, call: Call, run: str, mode: Mode, *, suggests: bool = False) -> None:
        super().__init__(services, call, "create_accounts", run, mode)
        self._suggests = suggests
        self._changed: deque[set[str]] = deque(maxlen=_COMPARED_BATCHES)
        self._existing: dict[str, list[str]] = {}
        """Accounts that were accepted before this request, by supplier. Such accounts may not belong to the run yet."""
        self._without_new_runs: set[str] = set()
        """Suppliers that have reached their limit of new runs today. Their lines are refused."""

    async def prepare(self, lines: Sequence[Line]) -> Batch:
        """Read the suppliers and states of the lines' accounts, and check the lines that were not accepted before."""
        await self._limit.pace(self._call.key, len(lines))
        items = await self._executor.in_thread(lambda: [_item(line) for line in lines])
        suppliers = await self._suppliers_of(items)
        if self._run:
            admitted = await self._counts.names.admitted([(code, self._run) for code in suppliers])
            self._without_new_runs.update(code for code in suppliers if (code, self._run) not in admitted)
        if self._mode != "validate":
            await self._executor.in_thread(
                self._read_states, [item for item in items if item.supplier in suppliers and item.external]
            )
        await self._check([item for item in items if item.line.body is not None and not item.is_replay], suppliers)
        return Batch(items, suppliers)

    async def settle(self, prepared: Batch) -> list[Receipt]:
        """Stage the new accounts, each at most once per transaction, and return a receipt for each line."""
        receipts: list[Receipt] = []
        changed: set[str] = set()
        self._changed.append(changed)
        for wave in waves(prepared.items):
            changed_replays = [item for item in wave if item.is_replay and self._is_changed(item.stream)]
            for item in changed_replays:
                item.is_replay = False
            await self._check(changed_replays, prepared.suppliers)
            outcomes = await self._staged([item for item in wave if self._is_to_stage(item, prepared.suppliers)])
            changed.update(stream for stream, outcome in outcomes.items() if outcome.recorded)
            receipts += [await numbered(self._receipt(item, prepared.suppliers, outcomes), item.line) for item in wave]
        await self._count(prepared, receipts)
        if any(receipt.replayed or receipt.service_identifier for receipt in receipts):
            await self._acknowledgements.confirm()
        return receipts

    def _read_states(self, items: Sequence[AccountItem]) -> None:
        """Read the states of the items' accounts. An item whose bytes were accepted before is a replay."""
        states = self._ledger.try_load({item.stream for item in items})
        for item in items:
            item.before = before = states[item.stream]
            if isinstance(before, Loaded) and before.version and item.line.body is not None:
                digest = hashlib.sha256(item.line.body).hexdigest()
                is_dry_run = item.is_dry_run or self._mode == "dry_run"
                item.is_replay = _is_accepted(before.state, payload_sha256=digest, is_dry_run=is_dry_run)

    async def _check(self, items: Sequence[AccountItem], suppliers: Mapping[str, KnownSupplier]) -> None:
        if items:
            terms = {code: entry.terms for code, entry in suppliers.items()}
            lines = [item.line.body or b"" for item in items]
            request = CheckRequest(lines, terms, self._mode, self._run, now(), self._suggests)
            results = await self._executor.check(request)
            for item, checked in zip(items, results, strict=True):
                if (item.supplier, item.external) != (checked.supplier, checked.external):
                    item.supplier, item.external, item.before = checked.supplier, checked.external, None
                item.checked = checked

    def _is_to_stage(self, item: AccountItem, suppliers: Mapping[str, KnownSupplier]) -> bool:
        checked = item.checked
        if checked is None or checked.command is None or checked.supplier in self._without_new_runs:
            return False
        return suppliers[checked.supplier].status == "ongoing"

    async def _staged(self, items: Sequence[AccountItem]) -> dict[str, Decision]:
        """Stage the items in one transaction. Return the outcomes by stream."""
        if not items:
            return {}
        try:
            return await self._executor.in_thread(self._stage, items)
        except AccountErased:  # a person was erased meanwhile: stage each account separately
            outcomes: dict[str, Decision] = {}
            for item in items:
                try:
                    outcomes |= await self._executor.in_thread(self._stage, [item])
                except AccountErased as erased:
                    outcomes[item.stream] = Decision(item.stream, None, refusal=erased)
            return outcomes

    def _stage(self, items: Sequence[AccountItem]) -> dict[str, Decision]:
        commands, payloads, before = {}, {}, {}
        for item in items:
            assert item.checked is not None
            assert item.checked.command is not None
            assert item.checked.payload is not None
            commands[item.stream], payloads[item.stream] = item.checked.command, item.checked.payload
            if item.before is not None and not self._is_changed(item.stream):
                before[item.stream] = item.before
        known = before if len(before) == len(commands) else None
        outcomes = self._ledger.execute_many(commands, at=now(), by=self._call.by, payloads=payloads, loaded=known)
        return {outcome.stream: outcome for outcome in outcomes}

    def _is_changed(self, stream: str) -> bool:
        """Return True if this request has staged the account after the batches in preparation were read."""
        return any(stream in changed for changed in self._changed)

    def _receipt(
        self, item: AccountItem, suppliers: Mapping[str, KnownSupplier], outcomes: Mapping[str, Decision]
    ) -> Receipt:
        number, checked = item.line.number, item.checked
        if item.line.body is None:
            return refused(number, TOO_LONG, whole(TOO_LONG, TOO_LONG_DETAIL))
        if item.supplier in self._without_new_runs:
            return refused(number, TOO_MANY, whole(TOO_MANY, TOO_MANY_DETAIL), external=item.external)
        if item.is_replay:
            assert isinstance(item.before, Loaded)
            return self._replayed(item, item.before.state, ())
        assert checked is not None
        if self._mode == "validate" and not checked.code:
            return Receipt(
                line=number, external_account_number=item.external, status="VALID", warnings=checked.warnings
            )
        outcome = outcomes.get(item.stream)
        if outcome is None:
            return self._unstaged_receipt(item, checked, suppliers)
        if outcome.refusal is not None:
            if _is_in_force(outcome.state, checked):
                return self._replayed(item, outcome.state, checked.warnings)
            return _refused_by_log(item, outcome.refusal, checked.warnings)
        if outcome.recorded is None:
            return self._replayed(item, outcome.state, checked.warnings)
        return Receipt(line=number, external_account_number=item.external, status="PENDING", warnings=checked.warnings)

    def _unstaged_receipt(
        self, item: AccountItem, checked: CheckedLine, suppliers: Mapping[str, KnownSupplier]
    ) -> Receipt:
        """Return the receipt of a line that was not staged: a replay or a refusal.

        As for single accounts, the account's state is checked before the supplier's status and the errors of the line.
        """
        state = item.before.state if isinstance(item.before, Loaded) and item.stream else None
        if state is not None and self._mode != "validate":
            if _is_in_force(state, checked):
                return self._replayed(item, state, checked.warnings)
            if state.status == "PROCESSED":
                return _refused_by_log(item, AlreadyImported(state.account_number), checked.warnings)
            if state.status == "IN_PROGRESS":
                return _refused_by_log(item, ImportInProgress(), checked.warnings)
        code, errors = checked.code, checked.errors
        supplier = suppliers.get(item.supplier)
        if supplier is not None and supplier.status != "ongoing" and self._mode != "validate":
            problem, _ = not_ongoing(supplier.status)
            code, errors = problem.code, (problem,)
        return refused(item.line.number, code or INVALID, errors, external=item.external, warnings=checked.warnings)

    def _replayed(self, item: AccountItem, state: ImportProcess, warnings: tuple[Problem, ...]) -> Receipt:
        if self._run and (state.staged is None or state.staged.run != self._run):
            self._existing.setdefault(item.supplier, []).append(item.external)
        return Receipt(
            line=item.line.number,
            external_account_number=item.external,
            status="PENDING",
            replayed=True,
            service_identifier=state.account_number or None,
            warnings=warnings,
        )

    async def _count(self, batch: Batch, receipts: Sequence[Receipt]) -> None:
        """Count the results of the lines. The counts of a run are stored before this returns and receipts are sent."""
        has_counts = await self._count_refusals(batch, receipts)
        warned = await self._executor.in_thread(warned_of, receipts) if self._mode == "validate" else {}
        for item, receipt in zip(batch.items, receipts, strict=True):
            self._measure(receipt)
            if receipt.status == "VALID" and (supplier := self._supplier_of(item, batch)):
                self._counts.validate(supplier, self._run, warned.get(receipt.line, ()))
                has_counts = True
        existing, self._existing = self._existing, {}
        for supplier, externals in existing.items():
            await self._counts.join(supplier, self._run, self._mode, externals)
        if self._run and (existing or has_counts):
            await self._counts.append(within_s=COUNT_TIMEOUT_S)

    def _measure(self, receipt: Receipt) -> None:
        if receipt.status == "REFUSED":
            measures().refused(receipt.code or INVALID)
        elif receipt.status == "PENDING":
            measures().accepted(self._mode, "unchanged" if receipt.replayed else "staged")


def _item(line: Line) -> AccountItem:
    """Return the line with the account number that a quick read finds.

    The full check corrects this number if necessary.
    """
    if line.body is None:
        return AccountItem(line)
    try:
        names = _names(line.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return AccountItem(line)
    account = names.payload or names
    is_dry_run = names.task_params is not None and names.task_params.is_dry_run
    return AccountItem(line, account.import_supplier, account.external_account_number, is_dry_run)


def _is_accepted(state: ImportProcess, *, payload_sha256: str, is_dry_run: bool) -> bool:
    """Return True if the newest submission of the account has these bytes, and waits, is in progress or processed."""
    staged = state.staged
    if staged is None or staged.payload_sha256 != payload_sha256:
        return False
    return state.status == "PROCESSED" or (
        state.status in ("PENDING", "IN_PROGRESS") and staged.is_dry_run is is_dry_run
    )


def _is_in_force(state: ImportProcess | None, checked: CheckedLine) -> bool:
    """Return True if the newest submission of the account has the same content, whatever its spelling, and is valid."""
    command, staged = checked.command, state.staged if state is not None else None
    if state is None or command is None or staged is None or not is_same_content(staged, command):
        return False
    return state.status == "PROCESSED" or (
        state.status in ("PENDING", "IN_PROGRESS") and staged.is_dry_run is command.is_dry_run
    )


def _refused_by_log(item: AccountItem, refusal: Refused, warnings: tuple[Problem, ...]) -> Receipt:
    number = refusal.account_number if isinstance(refusal, AlreadyImported) else None
    return refused(
        item.line.number,
        refusal.code,
        whole(refusal.code, sentence_of(refusal)),
        external=item.external,
        service_identifier=number,
        warnings=warnings,
    )
