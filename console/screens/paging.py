"""Pages of lists.

The address has the sort key of the last row before the page. With a sort key instead of a number of rows, every page
takes the same time, and new rows do not shift other rows.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from console.access.visit import Visit
from console.presentation.texts import N_

T = TypeVar("T")
Row = TypeVar("Row")
NumberKey = Annotated[int, Meta(ge=0, lt=10**18)]
TextKey = Annotated[str, Meta(max_length=1_000, pattern="^[^\\x00]*$")]
"""Types of sort keys in addresses."""


class Pages(msgspec.Struct, frozen=True):
    """Addresses of the first and the next page of a list, or ""."""

    first: str
    next: str


async def page_of(
    visit: Visit,
    name: str,
    query: Callable[..., Awaitable[Sequence[Row]]],
    kind: Any,
    size: int,
    *,
    key_attribute: str = "sort_key",
    anchor: str = "",
    start: Any = None,
) -> tuple[Sequence[Row], Pages]:
    """Return the rows of the page that the address names, and the addresses of other pages.

    `name` is the parameter of the address. The last word of `name`, `before` or `after`, is the query's parameter,
    whose value is `start` on the first page. `key_attribute` is the attribute of a row that is its sort key, of the
    type `kind`.
    """
    begins = key_in(visit, name, kind)
    begins = start if begins is None else begins
    bound = {} if begins is None else {name.rpartition("-")[2]: begins}
    rows = await visit.read(partial(query, **bound, limit=size + 1))
    last = attrgetter(key_attribute)(rows[size - 1]) if len(rows) > size else None
    return rows[:size], pages(visit, name, last, anchor=anchor)


def key_in(visit: Visit, name: str, kind: Any) -> Any:
    """Read the sort key from the address: JSON, or plain text for `str`. None for a first page. Raises NotValid."""
    text = visit.request.query_params.get(name, "")
    if not text or kind is str:
        return text.strip().replace("\0", "") or None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise invalid_key(visit, name) from error


def invalid_key(visit: Visit, name: str) -> Exception:
    """Return the refusal of an invalid sort key in the address."""
    return visit.invalid(name, N_("The sort key in the address must come from the link to the next page."))


def pages(visit: Visit, name: str, after: Any, *, anchor: str = "", path: str = "", has_begun: bool = True) -> Pages:
    """Return the addresses of the first page, and of the page after the sort key `after`, or "".

    Other parameters of the address stay: filters, and the keys of other lists. `path` is the address of the page if
    the request was a form. `has_begun` is False if the key in the address belongs to another list.
    """
    others = {key: value for key, value in visit.request.query_params.items() if key != name and value}

    def address(key: str) -> str:
        parameters = others | {name: key} if key else others
        query = f"?{urlencode(parameters)}" if parameters else ""
        return (path or visit.request.url.path) + query + (f"#{anchor}" if anchor else "")

    is_first = not has_begun or not visit.request.query_params.get(name)
    return Pages(
        "" if is_first else address(""),
        "" if after is None else address(after if isinstance(after, str) else msgspec.json.encode(after).decode()),
    )
