"""Origin of a command: the request that is being answered, which the events of the command name.

The HTTP layer sets it once at the beginning of a request. Threads and tasks of the request inherit it. Work without a
request, such as that of workers, has none.
"""

from contextvars import ContextVar

from eventstore.events import NO_METADATA, Metadata

origin: ContextVar[Metadata] = ContextVar("origin", default=NO_METADATA)
