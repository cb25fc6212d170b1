"""Table of all limits that protect callers from each other; docs/reference/limits.md shows it.

The table also lists limits of decoding and checking, which are defined in `schemas/`, since they do not depend on HTTP.
"""

import msgspec

from projections.queries.reconciliation import MAX_OPEN
from projections.queries.run_differences import MOST_DETAILED, MOST_IN_BUCKETS
from schemas.base import MAX_ITEMS
from schemas.reading.problems import MAX_PROBLEM_BYTES, MAX_PROBLEMS, MAX_STEP
from schemas.reading.shape_errors import MAX_DEPTH
from schemas.reading.work import (
    MAX_CONTAINERS,
    MAX_DECIMALS,
    MAX_NAMES,
    MAX_RULES_S,
    MAX_SCAN_S,
    MAX_VALUES,
    MAX_WALK_S,
)

KIB, MIB = 1024, 1024 * 1024

MAX_REQUEST_LINE_BYTES = 8 * KIB
MAX_HEADER_BYTES = 32 * KIB
MAX_HEADER_FIELDS = 100
MAX_BUFFERED_BYTES = 40 * KIB
"""Bytes without a callback of the parser, for example of an unfinished line of a header. Longer fields are refused."""
MAX_PIPELINED = 32
"""Requests that a client sends before the answers to earlier requests. A further request closes the connection."""
MAX_PIECES, MIN_PIECE_BYTES = 4_096, 64
"""Pieces of a body. After these, pieces must have MIN_PIECE_BYTES on average, or come no faster than PIECES_PER_S."""
PIECES_PER_S = 2_000
MAX_CONNECTIONS = 4_000
"""Connections of a process. Further connections are answered with 503."""
BACKLOG = 2_048
"""Connections that the system queues until the server accepts them."""
HEADER_TIMEOUT_S = 15.0
"""Longest time for the header of a request, from the connection or from the header's first byte."""
READ_TIMEOUT_S = 30.0
"""Longest time for the client to read, once the connection's buffer is full."""
STOPPING_S = 1.0
"""READ_TIMEOUT_S while the server stops [seconds]."""
KEEP_ALIVE_S = 75
"""Time after which an idle connection is closed."""
LINGER_S = 5.0
"""Time for a refused client to read the answer. Data that still arrives is discarded."""

MAX_BODY_BYTES = 10 * MIB
MAX_HELD_BYTES = 128 * MIB
"""Bytes of bodies that a process holds in memory. Beyond this limit, the process answers 503."""
MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
"""Bytes of a refused body that are read and discarded. After more bytes, the connection is aborted."""
BODY_TIMEOUT_S = 30.0
MAX_ANONYMOUS_BODY_BYTES = 32 * KIB
"""Bytes of a body without credentials, such as a request for a token."""
MAX_ANONYMOUS_HELD_BYTES = 8 * MIB
MAX_NETWORK_HELD_BYTES = 1 * MIB
"""Bytes of bodies without credentials from one network: a /24, or a /64 of IPv6."""
ANONYMOUS_BODY_TIMEOUT_S = 10.0
MAX_AT_ONCE_BYTES = 32 * KIB
"""Size up to which bodies are checked on the event loop.

Larger bodies are checked in a thread, so that other requests are answered meanwhile.
"""
MAX_BATCH_BODIES = 32
"""Small accounts that an api process checks in one batch."""
MAX_MEDIUM_BYTES = 256 * KIB
"""Size of medium bodies. Larger bodies are checked in a second thread, so that medium bodies do not wait for them."""
MAX_LINE_BYTES = 10 * MIB
MAX_BULK_AT_ONCE, MAX_BULK_OF_ONE = 16, 8
"""Bulk requests of a process, and of one organisation. Each request keeps a few batches in memory."""
MAX_FOLLOWING_AT_ONCE, MAX_FOLLOWING_OF_ONE = 200, 50
"""Event streams of a process, and of one organisation. Each stream reads the database once a second."""
MAX_LISTS_AT_ONCE, MAX_LISTS_OF_ONE = 200, 50
"""Lists that a process sends at the same time, and those of one organisation. Each list has two pages in memory."""
MAX_COMPARING_AT_ONCE, MAX_COMPARING_OF_ONE = 2, 1
"""Requests of a process, and of one organisation, that compare accounts with a run.

Each request uses a database connection.
"""
MAX_LIST_S = 3_600.0
"""Longest time for sending one list [seconds].

After this time, the list is cut off, so that slow readers do not use up the limit of lists.
"""
MAX_MANIFEST_BYTES, MAX_MANIFEST_PLACES = 2 * 1000 * 1000, 20_000
"""Size of a manifest that is compared with a run, and number of its ledgers and undocumented fields."""
MAX_BULK_AHEAD, MAX_BULK_AHEAD_BYTES = 4, 8 * MIB
"""Batches of a bulk request that are prepared or wait, and bytes of their lines. A larger batch waits for all others.
"""
MAX_BATCH_PROBLEMS, FEW_PROBLEMS = 10_000, 50
"""Problems of a batch of lines. After these, each further line lists only FEW_PROBLEMS, to save memory."""
BULK_SILENCE_S = 60.0
"""Longest time between two pieces of a bulk body."""
MAX_INFLATED_RATIO, MAX_INFLATED_BYTES = 500, 16 * MIB
"""Largest size of a decompressed body: this multiple of the compressed size, plus this number of bytes."""
ZSTD_WINDOW_BYTES = 8 * MIB
"""Window that every decoder should support (RFC 8878).

With larger windows, the sender could choose the memory that the decoder needs.
"""
MAX_CHECK_S = 60.0
"""Longest time for a batch in a helper process.

After this time, the helper is ended, and the api process checks the batch.
"""
MAX_ANSWER_BYTES = 2 * 1000 * 1000


class Limit(msgspec.Struct, frozen=True):
    """Row of the table: the name of a limit, its value, the answer to requests beyond the limit, and the resource that
    the limit protects.
    """

    name: str
    value: str
    answer: str
    protects: str


_BUSY, _TOO_LARGE = "503 `service_unavailable`", "413 `request_too_large`"
_ROWS = f"""\
request line | 8 KiB | 414 `uri_too_long` | memory, before credentials are checked
header of a request | 32 KiB | 431 `header_too_large` | memory, before credentials are checked
fields of a header | {MAX_HEADER_FIELDS} | 431 `header_too_large` | memory, before credentials are checked
trailers after a body | none allowed | 400 `parse_error` | memory, before credentials are checked
requests sent before the answers to earlier requests | {MAX_PIPELINED} | \
the connection is closed | memory of one connection
pieces in which a body arrives | {MAX_PIECES:,}, then {PIECES_PER_S:,}/s; no limit if they have \
{MIN_PIECE_BYTES} bytes on average | 400 `parse_error` | CPU time for other requests
connections of a process | {MAX_CONNECTIONS:,} | 503 | memory of all connections
time for a header | {HEADER_TIMEOUT_S:.0f} s | the connection is closed | connections
time for a client to read a piece of an answer | {READ_TIMEOUT_S:.0f} s | the connection is closed | connections, memory
idle time between two requests | {KEEP_ALIVE_S} s | the connection is closed | connections
body | 10 MiB | {_TOO_LARGE} | memory
time for a body | {BODY_TIMEOUT_S:.0f} s | 408 `request_timeout` | memory
bodies that a process holds | 128 MiB | {_BUSY}, \
first for the slowest body of the organisation with the most bytes | memory
body of a request without credentials, such as for a token | 32 KiB | {_TOO_LARGE} | memory
time for a body without credentials | {ANONYMOUS_BODY_TIMEOUT_S:.0f} s | 408 `request_timeout` | other token requests
bodies without credentials that a process holds | 8 MiB, and 1 MiB of one network (/24, or /64 of IPv6) | {_BUSY}, \
first for the slowest body | memory for importers' bodies, tokens and sign-ins
nesting of a body | {MAX_DEPTH} levels | 400 `parse_error` | stack memory
items of an array | {MAX_ITEMS:,} | 400 `max_length` | CPU
objects and arrays of a body | {MAX_CONTAINERS:,} | {_TOO_LARGE} | memory
values of a body | {MAX_VALUES:,} | {_TOO_LARGE} | memory
names of an object | {MAX_NAMES:,} | {_TOO_LARGE} | CPU time for other requests
numbers with a fraction or exponent in a body | {MAX_DECIMALS:,} | {_TOO_LARGE} | memory
CPU time for reading a body | {MAX_SCAN_S} s to find repeated names, {MAX_WALK_S} s to find other errors | \
{_TOO_LARGE} | CPU time for other requests
CPU time for the market's rules | {MAX_RULES_S} s | {_TOO_LARGE} | CPU time for other requests
body that is checked in the event loop | 32 KiB | larger bodies are checked in a thread | CPU time for other requests
accounts that are checked at a time | {MAX_BATCH_BODIES} of up to 32 KiB, 1 of up to 256 KiB, 1 larger | \
further accounts wait | memory
line of a bulk body | 10 MiB | `request_too_large` for this line only | memory
bulk requests of a process | {MAX_BULK_AT_ONCE}, of an organisation {MAX_BULK_OF_ONE} | {_BUSY} | \
memory, capacity for others
batches of a bulk request without receipts | {MAX_BULK_AHEAD}, 8 MiB | reading pauses | memory
pause of a bulk body | {BULK_SILENCE_S:.0f} s | 408 `request_timeout`, or no summary | capacity for others
size of a bulk body after decompression | {MAX_INFLATED_RATIO} times its compressed size, plus 16 MiB | \
{_TOO_LARGE}, or no summary | CPU, memory
window of a zstd body | 8 MiB | 400 `parse_error` | memory
time for a helper process to check a batch of lines | {MAX_CHECK_S:.0f} s | \
the api process checks the batch | capacity for others
streams of a run's events of a process | {MAX_FOLLOWING_AT_ONCE}, of an organisation {MAX_FOLLOWING_OF_ONE} | \
{_BUSY} | database, capacity for others
lists, histories and downloads that a process sends at a time | \
{MAX_LISTS_AT_ONCE}, to an organisation {MAX_LISTS_OF_ONE} | {_BUSY} | memory, capacity for others
time for sending a list, history or download | {MAX_LIST_S / 60:.0f} minutes | \
the answer is cut off | capacity for others
new runs of a supplier in a day (UTC) | 1,000 | 429 `too_many_runs`; in a bulk body only for the line | database
runs of a supplier that workers add up at a time | {MAX_OPEN} | {_BUSY} | workers, capacity for others
manifest that is compared with a run | 2 MB, {MAX_MANIFEST_PLACES:,} ledgers and undocumented fields | {_TOO_LARGE} | \
CPU, memory
accounts that a request compares with a run | 2,000; {MOST_DETAILED} with paths; {MOST_IN_BUCKETS:,} in its buckets | \
400 `validation_error` | database, CPU
requests of a process that compare accounts with a run | \
{MAX_COMPARING_AT_ONCE}, of an organisation {MAX_COMPARING_OF_ONE} | {_BUSY} | database, capacity for others
problems that an answer lists | {MAX_PROBLEMS:,} | 400, `errors_truncated` | CPU, size of the answer
problems that a receipt lists | {MAX_PROBLEMS:,}; {FEW_PROBLEMS} after {MAX_BATCH_PROBLEMS:,} problems of its batch | \
`errors_truncated` as the last error of the receipt | memory, CPU time for other requests
bytes of the problems in an answer | {MAX_PROBLEM_BYTES:,} | 400, `errors_truncated` | size of the answer
name in a problem's path | {MAX_STEP} characters | the name is cut | size of the answer
answer that is not streamed | 2 MB | {_TOO_LARGE}; a difference is cut | memory, network
"""
LIMITS: tuple[Limit, ...] = tuple(Limit(*row.split(" | ")) for row in _ROWS.splitlines())


def problems_listed(so_far: int) -> int:
    """Return the number of problems that a line may list, after earlier lines of its batch have listed a number of
    problems.
    """
    return MAX_PROBLEMS if so_far < MAX_BATCH_PROBLEMS else FEW_PROBLEMS
