"""Pages of lists: where one goes on stands in the address, as what its last row is sorted by.

A place and not a number of rows: each page costs the same, and rows that come meanwhile move no others.
"""

from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from api.http.errors import query_not_valid
from console.access.visit import Visit
from schemas.base import Problem
from schemas.sentence import Sentence

T = TypeVar("T")
PlaceNumber = Annotated[int, Meta(ge=0, lt=10**18)]
PlaceText = Annotated[str, Meta(max_length=1_000, pattern="^[^\\x00]*$")]
"""What places are made of."""
_NO_PLACE = Sentence("Take this from the link to the next page.", "Dieser Wert steht im Link auf die nächste Seite.")


class Pages(msgspec.Struct, frozen=True):
    """The ways on from a page of a list: addresses, "" where there is nothing to go on to."""

    first: str
    next: str


def place_in(visit: Visit, name: str, kind: type[T]) -> T | None:
    """Where a page begins, as the page before has said it; None for a first page. Raises NotValid."""
    text = visit.request.query_params.get(name, "")
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise no_place(name) from error


def no_place(name: str) -> Exception:
    """What refuses a place that no page has given."""
    return query_not_valid(Problem(name, "invalid", _NO_PLACE))


def code_in(visit: Visit, name: str) -> str:
    """The same of a list that is sorted by codes or ids, which stand there as they are; "" for a first page."""
    return visit.query(name).replace("\0", "")


def pages(visit: Visit, name: str, after: Any, *, anchor: str = "", path: str = "", has_begun: bool = True) -> Pages:
    """From this page to the first and to the one that begins `after` a place, None for none.

    The rest of the address stays: what the list is narrowed by, and where other lists of the page stand. `path` is
    that of the page where a form has led to it; `has_begun` is false where the place in the address is another list's.
    """
    asked = {key: value for key, value in visit.request.query_params.items() if key != name and value}

    def address(place: str) -> str:
        said = asked | {name: place} if place else asked
        query = f"?{urlencode(said)}" if said else ""
        return (path or visit.request.url.path) + query + (f"#{anchor}" if anchor else "")

    is_first = not has_begun or not visit.request.query_params.get(name)
    return Pages(
        "" if is_first else address(""),
        "" if after is None else address(after if isinstance(after, str) else msgspec.json.encode(after).decode()),
    )
