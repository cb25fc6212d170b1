"""Missing documents of an import.

The log has only the indexes of the statements whose documents are missing; the payload has the paths of the documents.
Paths are therefore available until the person is erased.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from eventstore.aggregates.import_process import ImportProcess, stream_of
from eventstore.log.ledger import Ledger
from schemas.sentence import Sentence
from schemas.status import AnyImportStatus, ImportStatus
from schemas.submission import stored_account

CODE = "path_does_not_exist_in_file_store"

_INDEX_IN_PROBLEM = re.compile(rf"{CODE}@statements\.(\d{{1,5}})\.statement_path")


def misses_documents(status: ImportStatus) -> bool:
    """Return whether the import failed because a document is missing."""
    return status.latest_error is not None and CODE in status.latest_error.detail


def with_missing_documents(
    ledger: Ledger, supplier: str, statuses: Mapping[str, AnyImportStatus]
) -> dict[str, AnyImportStatus]:
    """Return the statuses by external account number, with the missing documents in `latest_error.detail`.

    Raises StreamUnreadable.
    """
    streams = {
        stream_of(supplier, external): external for external, status in statuses.items() if misses_documents(status)
    }
    if not streams:
        return dict(statuses)
    bodies = staged_bodies(ledger, list(streams))
    with_paths = {streams[stream]: _naming(statuses[streams[stream]], body) for stream, body in bodies}
    return {**statuses, **with_paths}


def staged_bodies(ledger: Ledger, streams: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield stream and last staged payload of each import, except erased payloads. Raises StreamUnreadable."""
    states = {stream: loaded.state for stream, loaded in ledger.load(streams).items()}
    digests = {
        stream: state.staged.payload_sha256
        for stream, state in states.items()
        if isinstance(state, ImportProcess) and state.staged is not None
    }
    return ledger.each_payload(digests)


def document_paths(body: bytes) -> tuple[str, ...]:
    """Return the paths of an account's documents, in the order of its statements."""
    return tuple(statement.statement_path for statement in stored_account(body).statements)


def _naming(status: AnyImportStatus, body: bytes) -> AnyImportStatus:
    error = status.latest_error
    assert error is not None
    paths = document_paths(body)
    numbers = [int(number) for number in _INDEX_IN_PROBLEM.findall(error.detail)]
    missing = [paths[number] for number in numbers if number < len(paths)]
    if not missing:
        return status
    detail = Sentence(
        "{before}. There is no document at {paths}.",
        "{before}. Es gibt kein Dokument unter {paths}.",
        before=error.detail,
        paths=", ".join(missing),
    )
    return msgspec.structs.replace(status, latest_error=msgspec.structs.replace(error, detail=detail))
