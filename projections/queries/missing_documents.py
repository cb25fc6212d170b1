"""Which documents an import misses: the log keeps their places only, the payload has their paths.

So a path is told while the payload is there, and is gone with the person.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from eventstore.aggregates.import_process import ImportProcess, stream_of
from eventstore.log.ledger import Ledger
from schemas.sentence import Sentence
from schemas.status import AnyImportStatus, ImportStatus

CODE = "path_does_not_exist_in_file_store"

_PLACE = re.compile(rf"{CODE}@statements\.(\d{{1,5}})\.statement_path")


class _Statement(msgspec.Struct, frozen=True):
    statement_path: str = ""


class _Account(msgspec.Struct, frozen=True):
    statements: tuple[_Statement, ...] = ()
    payload: "_Account | None" = None


_decode = msgspec.json.Decoder(_Account).decode


def misses_documents(status: ImportStatus) -> bool:
    """Whether the import has failed for a document that is not there."""
    return status.latest_error is not None and CODE in status.latest_error.detail


def says(before: str, paths: Sequence[str]) -> Sentence:
    """The sentence of an error, followed by the paths of the missing documents."""
    return Sentence(
        "{before}. There is no document at {paths}.",
        "{before}. Es gibt kein Dokument unter {paths}.",
        before=before,
        paths=", ".join(paths),
    )


def says_in_english(before: str, paths: Sequence[str]) -> str:
    return str(says(before, paths))


def naming_documents(
    ledger: Ledger,
    supplier: str,
    statuses: Mapping[str, AnyImportStatus],
    says: Callable[[str, Sequence[str]], str] = says_in_english,
) -> dict[str, AnyImportStatus]:
    """The statuses, by external account number, with the missing documents named in `latest_error.detail`."""
    streams = {stream_of(supplier, external): external for external, one in statuses.items() if misses_documents(one)}
    if not streams:
        return dict(statuses)
    bodies = staged_bodies(ledger, list(streams))
    named = {streams[stream]: _naming(statuses[streams[stream]], body, says) for stream, body in bodies}
    return {**statuses, **named}


def staged_bodies(ledger: Ledger, streams: list[str]) -> Iterator[tuple[str, bytes]]:
    """The payload that each import was last staged with, by its stream; what was erased is missing."""
    states = {stream: loaded.state for stream, loaded in ledger.load(streams).items()}
    digests = {
        stream: state.staged.payload_sha256
        for stream, state in states.items()
        if isinstance(state, ImportProcess) and state.staged is not None
    }
    return ledger.each_payload(digests)


def document_paths(body: bytes) -> tuple[str, ...]:
    """The paths of an account's documents, in the order of its statements."""
    try:
        account = _decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ()
    return tuple(statement.statement_path for statement in (account.payload or account).statements)


def _naming(status: AnyImportStatus, body: bytes, says: Callable[[str, Sequence[str]], str]) -> AnyImportStatus:
    error = status.latest_error
    assert error is not None
    paths = document_paths(body)
    numbers = [int(number) for number in _PLACE.findall(error.detail)]
    missing = [paths[number] for number in numbers if number < len(paths)]
    if not missing:
        return status
    detail = says(error.detail, missing)
    return msgspec.structs.replace(status, latest_error=msgspec.structs.replace(error, detail=detail))
