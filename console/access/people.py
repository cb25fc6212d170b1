"""The user of a session, with their role and the suppliers that they see."""

from collections.abc import Collection
from typing import Any

import msgspec

from api.access.directory import ALL_SUPPLIERS
from projections.auxiliary.sessions import OpenSession

EVERYBODY = frozenset({"importer", "auditor", "support", "operator"})
"""All roles that can sign in."""
READERS = EVERYBODY - {"importer"}
"""Roles that may read all pages. Auditors may request verifications, but change no imports."""
DECIDERS = frozenset({"support", "operator"})
"""Roles that may retry and cancel imports."""
OPERATORS = frozenset({"operator"})
"""Roles that may use the operators' verbs."""


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """A user who has signed in. `session` is the id of the session, not the token that opens it."""

    user_id: str
    email: str
    name: str
    organisation: str
    role: str
    suppliers: Collection[str]
    session: str

    @classmethod
    def of(cls, opened: OpenSession) -> "Person":
        names = [name for name in cls.__struct_fields__ if name != "suppliers"]
        return cls(**{name: getattr(opened, name) for name in names}, suppliers=frozenset(opened.suppliers))

    @property
    def reach(self) -> frozenset[str] | None:
        """Codes of the suppliers that the user sees; None for all."""
        return None if ALL_SUPPLIERS in self.suppliers else frozenset(self.suppliers)

    @property
    def listed_reach(self) -> list[str] | None:
        """Sorted codes of the suppliers that the user sees, for queries; None for all."""
        return None if self.reach is None else sorted(self.reach)

    def may_touch(self, supplier: str) -> bool:
        return supplier in self.suppliers or ALL_SUPPLIERS in self.suppliers

    def may(self, roles: frozenset[str]) -> bool:
        return self.role in roles

    def may_see(self, screen: Any) -> bool:
        """Return True if the person's navigation has the screen."""
        return self.may(screen.roles or frozenset()) and (self.reach is None or not screen.is_whole)

    @property
    def by(self) -> str:
        """Actor in the events of this user's actions."""
        return f"user:{self.user_id}"

    @property
    def shown(self) -> str:
        return self.name or self.email
