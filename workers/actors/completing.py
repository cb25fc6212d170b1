"""The last step of processing imports: platform records, account number and event in one transaction for a batch.

If a batch fails, its halves are completed separately, again and again, so that an account that the platform's tables
refuse fails alone.
"""

from collections.abc import Callable, Sequence

import msgspec
import psycopg
import structlog

import market
from eventstore.aggregates import customer_mail
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import CompleteImport, FailImport, identity_of
from eventstore.clock import now
from eventstore.errors import LedgerError, Refused, StoreUnavailable
from eventstore.log.ledger import Ledger, Loaded
from projections.platform.change import copying
from projections.platform.rows import UndatedRows
from projections.views.import_supplier import KnownSupplier
from workers.actors.references import AccountReferences
from workers.actors.starting import Started

logger = structlog.get_logger()


class Ready(msgspec.Struct, frozen=True):
    """Import whose account was read, with the rows of the account. `warnings` are code@path.

    The account itself is dropped to save memory, since the accounts of a message do not fit into the CPU's caches.
    """

    started: Started
    number: str
    rows: UndatedRows
    references: AccountReferences
    warnings: tuple[str, ...] = ()
    supplier_settings: KnownSupplier | None = None


class Completer:
    """Completes imports. `by` returns the actor of the events."""

    def __init__(self, ledger: Ledger, by: Callable[[], str]) -> None:
        self._ledger = ledger
        self._by = by

    def complete(self, batch: Sequence[Ready], *, is_dry_run: bool) -> None:
        """Complete imports in as few transactions as possible, and fail or postpone imports that cannot be completed.

        Imports that another worker has taken over stay unchanged. Raises StoreUnavailable.
        """
        if len(batch) == 1:
            self._complete_alone(batch[0], is_dry_run=is_dry_run)
        elif batch:
            try:
                self._complete_batch(batch, is_dry_run=is_dry_run)
            except StoreUnavailable:
                raise
            except (LedgerError, psycopg.Error, ValueError) as error:
                logger.info("batch is split and retried", imports=len(batch), reason=type(error).__name__)
                remaining, middle = self._still_started(batch), len(batch) // 2
                for part in (remaining,) if len(remaining) < len(batch) else (batch[:middle], batch[middle:]):
                    self.complete(part, is_dry_run=is_dry_run)

    def postpone(self, started: Sequence[Started]) -> None:
        """Postpone imports. Imports that have ended stay unchanged."""
        at = self._ledger.time()
        commands = {attempt.stream: attempt.postponed("processing_failed", at) for attempt in started}
        self._ledger.execute_many(commands, at=at, by=self._by())

    def _still_started(self, batch: Sequence[Ready]) -> list[Ready]:
        """Return the imports of the batch that were neither ended nor taken over meanwhile."""
        present = self._ledger.try_load([ready.started.stream for ready in batch])
        remaining = []
        for ready in batch:
            loaded, start = present[ready.started.stream], ready.started.process.start
            if isinstance(loaded, Loaded) and (loaded.state.status, loaded.state.start) == ("IN_PROGRESS", start):
                remaining.append(ready)
        return remaining

    def _complete_batch(self, batch: Sequence[Ready], *, is_dry_run: bool) -> None:
        at = self._ledger.time()
        rows: dict[str, list[bytes]] = {}
        commands: dict[str, Command] = {}
        for ready in batch:
            for table, values in ready.rows.at(at).items():
                rows.setdefault(table, []).extend(values)
            commands[ready.started.stream] = CompleteImport(
                start=ready.started.process.start,
                account_number="" if is_dry_run else ready.number,
                rules_edition=market.EDITION,
                warnings=ready.warnings,
            )
            if ready.supplier_settings is not None and ready.supplier_settings.sends_customer_emails and not is_dry_run:
                commands |= _mail_request(ready, ready.supplier_settings.email_language)
        loaded = {ready.started.stream: Loaded(ready.started.process, ready.started.process.start) for ready in batch}
        if is_dry_run:
            self._ledger.rehearse(copying(rows))
            self._ledger.execute_many(commands, at=at, by=self._by(), loaded=loaded)
        else:
            self._ledger.execute_many(
                commands, at=at, by=self._by(), loaded=loaded, write_rows=copying(rows), needs_all=True
            )

    def _complete_alone(self, ready: Ready, *, is_dry_run: bool) -> None:
        stream, process = ready.started.stream, ready.started.process
        try:
            self._complete_batch([ready], is_dry_run=is_dry_run)
        except StoreUnavailable:
            raise
        except Refused as refusal:
            logger.info("import was taken over", stream=stream, reason=refusal.code)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            detail = "The platform's tables refuse this account: " + type(error).__name__
            command = FailImport(start=process.start, code="account_not_accepted_by_platform", detail=detail)
            self._ledger.execute_many({stream: command}, at=now(), by=self._by())
        except Exception:
            logger.exception("import is postponed", stream=stream, attempt=process.attempt)
            self.postpone([ready.started])


def _mail_request(ready: Ready, language: str) -> dict[str, Command]:
    """Return the request for the customer's e-mail, for the transaction that creates the account."""
    staged = ready.started.process.staged
    assert staged is not None
    stream = customer_mail.stream_of(*identity_of(ready.started.stream))
    request = customer_mail.RequestMail(
        account_number=ready.number, payload_sha256=staged.payload_sha256, language=language
    )
    return {stream: request}
