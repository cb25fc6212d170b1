"""Sandbox: importers choose the outcome of an import by the ending of its external account number. Pure.

`…-ERRORED-<code>` fails with this code. `…-TRANSIENT-2` is postponed twice and then processed. `…-SLOW-30S` is in
progress for 30 seconds. Endings have an effect only if the service was started as a sandbox.
"""

import re
from datetime import datetime, timedelta

from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.import_process import FailImport, ImportProcess, PostponeImport, identity_of

AGAIN_AFTER = timedelta(seconds=1)
MAX_SLOW_S = 50
"""Longest time that an import of a sandbox is in progress [seconds], shorter than its lease."""

_ERRORED = re.compile(r"-ERRORED-([A-Za-z0-9_]{1,64})\Z")
_TRANSIENT = re.compile(r"-TRANSIENT-([1-4])\Z")
_SLOW = re.compile(r"-SLOW-([0-9]{1,2})S\Z")


def command_for(stream: str, process: ImportProcess, at: datetime) -> Command | None:
    """Return the command that ends an attempt of a sandbox; None if the account number has no such ending."""
    external = identity_of(stream)[1]
    if (match := _ERRORED.search(external)) is not None:
        code = match.group(1)
        detail = "The account number ends with this error: the sandbox fails such imports."
        return FailImport(start=process.start, code=code, detail=detail, problems=(f"{code}@non_field_errors",))
    if (match := _TRANSIENT.search(external)) is not None and process.attempt <= int(match.group(1)):
        return PostponeImport(start=process.start, code="processing_failed", due_at=at + AGAIN_AFTER)
    return None


def slowness_s(stream: str) -> int:
    """Return the seconds that the import is to be in progress; 0 if the number has no such ending."""
    match = _SLOW.search(identity_of(stream)[1])
    return min(int(match.group(1)), MAX_SLOW_S) if match else 0
