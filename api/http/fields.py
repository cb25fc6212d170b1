"""Header fields of a request, as they arrived: the framework's mapping takes microseconds for one that is absent."""

from starlette.requests import Request

FIELDS = "importledger.fields"
"""The key in the ASGI scope of the fields by name, once one has been asked for."""


def field(request: Request, name: bytes) -> str | None:
    """The first field of this name, which is in lower case; None where there is none."""
    fields = request.scope.get(FIELDS)
    if fields is None:
        fields = request.scope[FIELDS] = dict(reversed(request.scope["headers"]))
    value: bytes | None = fields.get(name)
    return None if value is None else value.decode("latin-1")
