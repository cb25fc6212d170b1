"""Runs count as the statistics do."""

from embedded.postgres import PostgresUrls
from eventstore.log.ledger import Ledger
from projections import FOLLOWING
from projections.import_run import IMPORT_RUN, run_states
from tests.support.problems import INVALID, MISSING, failed
from tests.support.rows import asked
from workers.projector import Projector


def test_a_failure_counts_once_in_its_run_as_in_the_statistics(ledger: Ledger, database: PostgresUrls) -> None:
    for external, problems in (("1", (MISSING, "invalid_iban@payment_instructions.0")), ("2", ())):
        failed(ledger, external, INVALID, *problems, run="r")
    projector = Projector(ledger, FOLLOWING)
    with ledger.connection() as connection:
        while projector.advance(connection, IMPORT_RUN):
            pass
    [state] = asked(database.service, run_states, "S", "r")
    assert [(error.code, error.path, error.number) for error in state.record.errors] == [
        (INVALID, "", 1),
        ("path_does_not_exist_in_file_store", "statements[].statement_path", 1),
    ]
