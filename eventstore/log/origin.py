"""Where a command comes from: the request that is being answered, so that the events it causes can name it.

Whoever answers requests says so once, at their beginning; threads and tasks that work for a request inherit it. Work
that no request has asked for, as that of workers, has none.
"""

from contextvars import ContextVar

from eventstore.events import NO_METADATA, Metadata

origin: ContextVar[Metadata] = ContextVar("origin", default=NO_METADATA)
