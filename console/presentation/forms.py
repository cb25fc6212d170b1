"""Fields of a form by name. A field may have several values; the value of a file is its text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qs

from api.http.status_codes import ApiError
from schemas.sentence import Sentence

MAX_FIELDS = 20_000
_UNREADABLE = Sentence("The form cannot be read.", "Das Formular ist nicht lesbar.")


_BOUNDARY = re.compile(r'(?i)multipart/form-data;(?:[^;]{0,200};){0,3}\s*boundary="?([^";\s]{1,200})"?')
_NAME = re.compile(r'(?im)^content-disposition:\s*form-data;\s*name="([^"\r\n]*)"(;\s*filename\*?=)?')


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[str, str]]:
    """Yield name and value of each part of a multipart form. Raises ValueError."""
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary, MAX_FIELDS + 2)
    if not parts or not parts[-1].startswith(b"--"):
        raise ValueError("the form has no end, or too many fields")
    for part in parts[:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        named = _NAME.search(head.decode())
        if named is None:
            raise ValueError("a part without a name")
        yield named[1], content.decode(errors="replace").replace("\0", "\ufffd") if named[2] else content.decode()


class Form:
    """The fields of a submitted form."""

    def __init__(self, fields: Mapping[str, Sequence[str]] | None = None) -> None:
        self._fields = dict(fields or {})

    @classmethod
    def of(cls, body: bytes, content_type: str = "") -> "Form":
        """Read the fields from a body. Raises ApiError 400 if it is not a form."""
        fields: dict[str, list[str]]
        try:
            if boundary := _BOUNDARY.match(content_type):
                fields = {}
                for name, value in _parts(body, boundary[1].encode()):
                    fields.setdefault(name, []).append(value)
            else:
                text = body.decode("utf-8")
                fields = parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
        except ValueError:
            raise ApiError(400, _UNREADABLE) from None
        if any("\0" in value for values in fields.values() for value in values):
            raise ApiError(400, _UNREADABLE)
        return cls(fields)

    def text(self, name: str) -> str:
        """Return the last value of the field, stripped."""
        return self.secret(name).strip()

    def secret(self, name: str) -> str:
        """Return the last value of the field, unchanged."""
        return self._fields.get(name, [""])[-1]

    def all(self, name: str) -> list[str]:
        """Return all values of the field, stripped."""
        return [value.strip() for value in self._fields.get(name, [])]

    @property
    def fields(self) -> Mapping[str, Sequence[str]]:
        return self._fields
