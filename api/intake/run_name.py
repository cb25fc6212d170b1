"""The query parameter by which requests name their run."""

import re

from starlette.requests import Request

from api.http.status_codes import ApiError
from api.operation import Parameter
from schemas.sentence import Sentence

RUN = Parameter(
    name="run",
    description="A name for what is sent together, over any number of requests. It is kept in clear for ever: no"
    " place for personal data.",
    schema={"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
)
RUN_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,64}\Z")


def named_run(request: Request) -> str:
    """The run that a request names; "" for none. Raises ApiError 400."""
    if not request.scope["query_string"]:
        return ""
    name = request.query_params.get("run")
    if name is None:
        return ""
    if not RUN_NAME.match(name):
        raise ApiError(
            400,
            Sentence(
                "A run's name must have 1 to 64 of A–Z, a–z, 0–9, point, underscore and hyphen,"
                " and must not be . or ..",
                "Der Name eines Laufs muss 1 bis 64 Zeichen haben: A–Z, a–z, 0–9, Punkt, Unterstrich, Bindestrich;"
                " er darf nicht . oder .. sein.",
            ),
        )
    return name
