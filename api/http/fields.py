"""Header fields of a request by name. Starlette's mapping is slower, because it compares all fields at each access."""

import re

from starlette.requests import Request

FIELDS = "importledger.fields"
"""Key in the ASGI scope of the header fields by name. The first call of `field` sets the value."""
APPLIED = {"Preference-Applied": "return=representation"}
"""Header of an answer for which a preference was obeyed."""
_PREFERENCE = re.compile(r'\s*return\s*=\s*"?representation"?\s*(?:;.*)?\Z', re.IGNORECASE)


def field(request: Request, name: bytes) -> str | None:
    """Return the first header field with a name, which must be in lower case; None without such a field."""
    fields = request.scope.get(FIELDS)
    if fields is None:
        fields = request.scope[FIELDS] = dict(reversed(request.scope["headers"]))
    value: bytes | None = fields.get(name)
    return None if value is None else value.decode("latin-1")


def prefers_representation(request: Request) -> bool:
    """Return True if the header Prefer (RFC 7240) has `return=representation`. Unknown preferences are ignored."""
    return field(request, b"prefer") is not None and any(
        _PREFERENCE.match(preference)
        for header in request.headers.getlist("prefer")
        for preference in header.split(",")
    )
