"""Filters of lists that a user has saved under a name: encrypted in the user's details, and deleted with them."""

from collections.abc import Collection, Sequence
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from console.presentation.listing import hidden, revealed
from eventstore.log.authority import AuthorityKey

MAX_FILTERS = 20
MAX_NAME = 60
_KEPT = frozenset({"supplier", "status", "code", "path", "fixed", "run", "day", "period", "state", "tab", "user"})
"""Parameters of addresses that are saved. Search texts, places in lists and selections are not."""


class SavedFilter(msgspec.Struct, frozen=True):
    """Address of a list with its filter, under the user's name for it."""

    name: str
    address: str


def read_filters(authority: AuthorityKey, user_id: str, stored: str) -> list[SavedFilter]:
    """Return the filters of a user, by name. Text that was not encrypted for this user counts as none."""
    text = revealed(stored, _key(authority, user_id)) if stored else ""
    return msgspec.json.decode(text, type=list[SavedFilter]) if text else []


def stored_filters(authority: AuthorityKey, user_id: str, filters: Sequence[SavedFilter]) -> str:
    """Return the filters as text for the user's details."""
    by_name = sorted(filters, key=lambda saved: saved.name.casefold())
    return hidden(msgspec.json.encode(by_name).decode(), _key(authority, user_id)) if by_name else ""


def address_to_save(here: str, lists: Collection[str]) -> str | None:
    """Return the address of a list with its filter; None unless it is one of these lists."""
    parts = urlsplit(here)
    if parts.path not in lists or parts.netloc:
        return None
    parameters = [(name, value) for name, value in parse_qsl(parts.query) if name in _KEPT]
    return parts.path + (f"?{urlencode(parameters)}" if parameters else "")


def _key(authority: AuthorityKey, user_id: str) -> str:
    return authority.mac("saved filters", user_id)
