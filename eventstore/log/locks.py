"""Every advisory lock of the service: its number, who takes it, and in which order.

Transactions take ERASURE, then PLATFORM, then LOG, never the other way round, or two of them wait for each other for
ever: a worker writes platform rows before it appends, and a switch of versions waits for such rows before it stops the
log. A switch also holds the row of the projection's live version, which it takes before all three.

The others are held by sessions, one to a process at a time, and taken before any transaction begins.
"""

WAIT_MS = 400
"""Longest wait for a lock that others queue behind [milliseconds]; then everything is given back and tried again.

A switch waits twice, for a table and for the log. Both waits together must end before creates are answered 503
(`group_commit.ANSWER_TIMEOUT_S`).
"""

LOG = 7015001
"""The log: an append takes it until the commit, so that positions have the order of commits (`append_events`).

A question for a time at the end of the log shares it for a moment (`settled_position_at`)."""
PLATFORM = 7015002
"""The platform's tables: shared by those who write rows, exclusive for a switch of versions and for an erasure."""
MIGRATION = 7015003
"""`migrate`, so that two of them wait for each other."""
RELAY = 7015004
"""The one relay that rings; others stand by."""
SEALER = 7015005
"""The one sealer that signs."""
PROJECTOR = 7015006
"""The one projector that keeps projections up with the log."""
ERASURE = 7015007
"""Rows that tell of persons: shared by those who write such from payloads that they have read before, exclusive for an
erasure (`projections.versions.forgetting`)."""
ENDED_IMPORTS = 7015008
"""The one follower that writes a line for each import that ends."""
OWNER_TASKS = 7015010
"""The one process that carries out what needs the rights of the database's owner."""

WORKERS = 7015
"""A class of locks: each worker holds the one of its own number while it lives."""
ARCHIVES = 7019
"""A class of locks: one for each supplier, by its code's hash, so that one archives it, or attaches, at a time."""
VERSIONS = 7016
"""A class of locks: one for each projection, by its name's hash, so that only one builds or switches versions of it;
0 while `migrate` sets projections up."""
