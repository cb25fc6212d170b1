"""Description of an endpoint: a row at its handler, from which its route, its rights and its documentation are made."""

import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from api.http.errors import query_not_valid
from schemas.base import Problem
from schemas.sentence import Sentence

V1, V2 = "/v1/data-import", "/v2/data-import"
ACCOUNT_PATH = f"{V2}/accounts/{{supplier}}/{{external}}/"

BEFORE, ACCOUNTS, AFTER = "Before accounts", "Accounts", "After accounts"
STATUS, TOKENS, SERVICE = "Following imports", "Tokens", "The service"
TAGS = {
    BEFORE: "Market participants and their price sheets, which accounts refer to.",
    ACCOUNTS: "Accounts to import, and what became of each.",
    AFTER: "Delivery notes, energy amounts and invoices of accounts that exist.",
    STATUS: "Lists, counts and runs: how far a migration is.",
    TOKENS: "Tokens for the keys of organisations.",
    SERVICE: "Health, error codes and this description.",
}
"""Groups of operations in the description, each with its content."""

EVENTS = "text/event-stream"

Handler = TypeVar("Handler", bound=Callable[..., Any])
_EXAMPLES = Path(__file__).parent / "examples"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A parameter of the query, with its JSON Schema."""

    name: str
    description: str
    schema: dict[str, Any]
    is_required: bool = False
    default: Any = None
    sentence: Sentence = Sentence("This value is not valid.", "Dieser Wert ist nicht gültig.")
    """Sentence for a value that does not match the pattern."""

    def read(self, request: Request) -> Any:
        """Return the value in the query, the default without one. Raises NotValid for a value outside the schema."""
        text = request.query_params.get(self.name)
        if text is None:
            return self.default
        match self.schema:
            case {"enum": [*values]} if text not in values:
                listed = ", ".join(values)
                sentence = Sentence(
                    f"{self.name} must be one of {listed}.", f"{self.name} muss einer der Werte {listed} sein."
                )
                raise query_not_valid(Problem(self.name, "invalid_choice", sentence))
            case {"type": "integer", "minimum": least, "maximum": most}:
                if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
                    return int(text)
                english = f"{self.name} must be a whole number from {least} to {most}."
                german = f"{self.name} muss eine ganze Zahl von {least} bis {most} sein."
                raise query_not_valid(Problem(self.name, "invalid", Sentence(english, german)))
            case {"format": "date"}:
                try:
                    return msgspec.convert(text, date)
                except msgspec.ValidationError as error:
                    sentence = Sentence(
                        f"{self.name} must be a day as YYYY-MM-DD.", f"{self.name} muss ein Tag als JJJJ-MM-TT sein."
                    )
                    raise query_not_valid(Problem(self.name, "invalid", sentence)) from error
            case {"pattern": pattern} if not re.fullmatch(pattern.strip("^$"), text):
                raise query_not_valid(Problem(self.name, "invalid", self.sentence))
            case _:
                return text


SUGGEST = Parameter(
    name="suggest",
    description="`1` adds a `suggestion` to each problem that has a safe correction.",
    schema={"type": "string", "enum": ["0", "1"]},
    default="0",
)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """Row of the API: method and path, roles that may call it, its body and answers, and the method that answers."""

    handler: Callable[..., Awaitable[Response]]
    """Method of the endpoint's class, of (request, call), or of (request) without `roles`."""
    name: str
    method: str
    path: str
    tag: str
    summary: str
    answers: dict[int, Any]
    """Status to type of the body; None for a body that is no JSON."""
    roles: frozenset[str] | None = None
    """Roles that may call the operation; None if no token is needed.

    `api.admission` checks the role, not the handler.
    """
    is_foreign_empty: bool = False
    """True if the answer about a supplier that the caller may not see is an empty list instead of 404."""
    body: type | None = None
    is_body_optional: bool = False
    is_read: bool = False
    """True for a POST that changes nothing, whose answer acknowledges no data."""
    example: Any = None
    """Example of an accepted body. Every operation with a body has one."""
    examples: dict[str, Any] = {}
    """Further examples, by name."""
    query: tuple[Parameter, ...] = ()
    refusals: tuple[int, ...] = ()
    """Statuses of refusals, in addition to the statuses that all operations have."""
    prefers: bool = False
    """True if `Prefer: return=representation` makes a difference."""
    is_slashed: bool = True
    media: str = ""
    """Media type of the answer, if it is not JSON."""
    is_ndjson: bool = False
    """True if body and answer are NDJSON. The handler reads such a body itself."""
    last_line: type | None = None
    """Type of the last line of an answer in lines, if it differs from the others."""

    @property
    def endpoint(self) -> str:
        """Name of the class whose method answers."""
        return self.handler.__qualname__.split(".")[0]

    @property
    def names_supplier(self) -> bool:
        """True for a path with a supplier. The operation answers 404 for a supplier that the caller may not see."""
        return "{supplier}" in self.path


def operation(method: str, path: str, tag: str, **fields: Any) -> Callable[[Handler], Handler]:
    """Mark a method as the handler of an operation. The method's name and docstring name and describe the operation."""

    def mark(handler: Handler) -> Handler:
        summary = " ".join((handler.__doc__ or "").split())
        row = Operation(
            handler=handler, name=handler.__name__, method=method, path=path, tag=tag, summary=summary, **fields
        )
        handler.__dict__["operation"] = row
        return handler

    return mark


def operations_of(endpoint: type) -> Iterator[Operation]:
    """Yield the operations of an endpoint's class, in the order of their definition."""
    for member in vars(endpoint).values():
        if isinstance(row := getattr(member, "operation", None), Operation):
            yield row


def example_of(name: str) -> Any:
    """Return an example body that is too long for its endpoint's file, from `api/examples/NAME.json`."""
    return msgspec.json.decode((_EXAMPLES / f"{name}.json").read_bytes())
