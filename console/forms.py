"""What a form sends: fields by name, each any number of times."""

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs

from api.status_codes import ApiError
from schemas.sentence import Sentence

MAX_FIELDS = 20_000
_UNREADABLE = Sentence("The form cannot be read.", "Das Formular ist nicht lesbar.")


class Form:
    """The fields of a form that was sent, or of a query."""

    def __init__(self, fields: Mapping[str, Sequence[str]] | None = None) -> None:
        self._fields = dict(fields or {})

    @classmethod
    def of(cls, body: bytes) -> "Form":
        """Raises ApiError 400."""
        try:
            text = body.decode("utf-8")
            fields = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
        except ValueError:
            raise ApiError(400, _UNREADABLE) from None
        if any("\0" in value for values in fields.values() for value in values):
            raise ApiError(400, _UNREADABLE)
        return cls(fields)

    def text(self, name: str, default: str = "") -> str:
        """The field without outer blanks."""
        return self._fields.get(name, [default])[-1].strip()

    def secret(self, name: str) -> str:
        """The field as it was typed."""
        return self._fields.get(name, [""])[-1]

    def all(self, name: str) -> list[str]:
        """Every value of the field."""
        return [value.strip() for value in self._fields.get(name, [])]

    def __contains__(self, name: str) -> bool:
        return name in self._fields
