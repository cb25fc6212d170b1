"""Every command of an import, with arbitrary fields, and the states that may follow each state."""

from hypothesis import strategies as st

from eventstore.aggregates.import_process import (
    CancelImport,
    CompleteImport,
    EraseSubject,
    FailImport,
    PostponeImport,
    RetryImport,
    RevertImport,
)
from tests.support.make import NOON, stage, start

COMMANDS = st.one_of(
    st.builds(stage, st.sampled_from(["a" * 64, "b" * 64]), is_dry_run=st.booleans()),
    st.builds(start, max_attempts=st.integers(1, 3)),
    st.builds(CompleteImport, start=st.integers(1, 6), account_number=st.sampled_from(["A-00000001", "A-00000002"])),
    st.builds(FailImport, start=st.integers(1, 6), code=st.just("x"), detail=st.just("x")),
    st.builds(PostponeImport, start=st.integers(1, 6), code=st.just("x"), due_at=st.just(NOON)),
    st.builds(CancelImport),
    st.builds(RetryImport),
    st.builds(EraseSubject),
    st.builds(RevertImport, run=st.sampled_from(["", "r"]), followed_by=st.sampled_from(["", "release"])),
)

LEGAL = {
    "NEW": {"PENDING"},
    "PENDING": {"PENDING", "IN_PROGRESS", "CANCELLED", "ERRORED", "DRY_RUN_ERRORED"},
    "IN_PROGRESS": {"PENDING", "PROCESSED", "ERRORED", "DRY_RUN_SUCCEEDED", "DRY_RUN_ERRORED"},
    "ERRORED": {"PENDING", "CANCELLED"},
    "CANCELLED": {"PENDING", "CANCELLED"},
    "DRY_RUN_SUCCEEDED": {"PENDING", "CANCELLED"},
    "DRY_RUN_ERRORED": {"PENDING", "CANCELLED"},
    "PROCESSED": {"PROCESSED", "CANCELLED"},
}
"""States that may follow each state.

PENDING becomes ERRORED when the attempts are used up. Erasures and reverts cancel.
"""
