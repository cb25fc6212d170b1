"""The header Prefer (RFC 7240): callers who want to be told what became of a request say `return=representation`."""

import re

from starlette.requests import Request

from api.http.fields import field

APPLIED = {"Preference-Applied": "return=representation"}

_PREFERENCE = re.compile(r'\s*return\s*=\s*"?representation"?\s*(?:;.*)?\Z', re.IGNORECASE)


def prefers_representation(request: Request) -> bool:
    """Whether any of the header's preferences is this one; what is not understood is ignored, as the RFC asks."""
    return field(request, b"prefer") is not None and any(
        _PREFERENCE.match(preference)
        for header in request.headers.getlist("prefer")
        for preference in header.split(",")
    )
