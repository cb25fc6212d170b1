"""All advisory locks of the service: their numbers, their holders and their order.

Transactions take ERASURE, REVERTS, PLATFORM, then LOG. Another order deadlocks: a worker writes platform rows before it
appends, and a switch of versions waits for such rows before it locks the log. A switch first locks the row of the
projection's live version. All other locks are held by sessions. A session takes such a lock before any transaction
begins.
"""

WAIT_MS = 400
"""Longest wait for a lock for which other transactions queue [milliseconds].

After this wait, the transaction releases all locks and tries again. A switch waits twice, for a table and for the log.
Both waits together must be shorter than `group_commit.ANSWER_TIMEOUT_S`.
"""

LOG = 7015001
"""The log. An append holds it until the commit, so that positions have the order of commits.

`settled_position_at` shares it for a moment.
"""
PLATFORM = 7015002
"""Tables of the platform: shared by writers of rows, exclusive for a switch of versions and for an erasure."""
MIGRATION = 7015003
"""Lock of the one running `migrate`."""
RELAY = 7015004
"""Lock of the active relay. Other relays stand by."""
SEALER = 7015005
"""Lock of the one sealer that signs."""
PROJECTOR = 7015006
"""Lock of the one projector that updates projections from the log."""
ERASURE = 7015007
"""Rows with personal data: shared by writers that have read payloads before, exclusive for an erasure.

See `projections.versions.reading.wait_for_erasures`.
"""
ENDED_IMPORTS = 7015008
"""Lock of the one follower that logs a line for each import that ends."""
OWNER_TASKS = 7015010
"""Lock of the one process that runs tasks with the rights of the database's owner."""
BOOK_STEPS = 7015011
"""Lock of the api process that claims a step of a book, until its claim is committed."""

REVERTS = 7017
"""Class of locks: one per supplier, by the hash of its code. It comes before PLATFORM.

Exclusive for a batch of a revert, a release, and a change of the supplier's status. Shared by writers of post-account
records, which check under the lock that their account still exists.
"""
WORKERS = 7015
"""Class of locks: each worker holds the lock of its number while it lives."""
ARCHIVES = 7019
"""Class of locks: one per supplier, by the hash of its code, for archiving and attaching."""
VERSIONS = 7016
"""Class of locks: one per projection, by the hash of its name, for building and switching versions.

Number 0 is held while `migrate` installs projections.
"""
