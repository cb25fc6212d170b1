"""Header fields of a request, as they arrived: the framework's mapping takes microseconds for one that is absent."""

import re

from starlette.requests import Request

FIELDS = "importledger.fields"
"""The key in the ASGI scope of the fields by name, once one has been asked for."""
APPLIED = {"Preference-Applied": "return=representation"}
"""What an answer says where a preference was obeyed."""
_PREFERENCE = re.compile(r'\s*return\s*=\s*"?representation"?\s*(?:;.*)?\Z', re.IGNORECASE)


def field(request: Request, name: bytes) -> str | None:
    """The first field of this name, which is in lower case; None where there is none."""
    fields = request.scope.get(FIELDS)
    if fields is None:
        fields = request.scope[FIELDS] = dict(reversed(request.scope["headers"]))
    value: bytes | None = fields.get(name)
    return None if value is None else value.decode("latin-1")


def prefers_representation(request: Request) -> bool:
    """Whether the header Prefer (RFC 7240) has `return=representation`; what is not understood is ignored."""
    return field(request, b"prefer") is not None and any(
        _PREFERENCE.match(preference)
        for header in request.headers.getlist("prefer")
        for preference in header.split(",")
    )
