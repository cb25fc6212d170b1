"""Failed imports, written straight into the log."""

from eventstore.aggregates.import_process import FailImport, stream_of
from eventstore.log.ledger import Ledger
from tests.support.make import NOON, stage, start

MISSING = "path_does_not_exist_in_file_store@statements.0.statement_path"
INVALID = "account_failed_validation"


def failed(ledger: Ledger, external: str, code: str, *problems: str, run: str = "") -> None:
    """An import of supplier S that failed in its first attempt."""
    for command in (stage(run=run), start(), FailImport(start=2, code=code, detail="No.", problems=problems)):
        ledger.execute(stream_of("S", external), command, at=NOON, by="t")
