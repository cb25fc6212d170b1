"""Header fields of a request, as they arrived: the framework's mapping takes microseconds for one that is absent."""

from starlette.requests import Request


def field(request: Request, name: bytes) -> str | None:
    """The first field of this name, which is in lower case; None where there is none."""
    for one, value in request.scope["headers"]:
        if one == name:
            text: str = value.decode("latin-1")
            return text
    return None
