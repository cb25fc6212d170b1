"""FastAPI with pydantic v2: the account's shapes as models, validated by the framework before the handler runs.

As its documentation advises for speed: one model for the body, no response model, uvloop and httptools below.
"""

from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from fastapi import FastAPI, Response
from msgspec import NODEFAULT, Meta, UnsetType
from pydantic import BaseModel, ConfigDict, Field, create_model

from bench.peers.server import serve
from schemas.account import Account


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=False)


@cache
def model_of(wire_type: type) -> type[BaseModel]:
    """Return a model as a developer would write it for this shape: the same names, types, lengths and patterns."""
    fields = {
        field.name: (_type(field.type), ... if field.default is NODEFAULT else None)
        for field in msgspec.structs.fields(wire_type)
    }
    return create_model(wire_type.__name__, __base__=Strict, **fields)


def _type(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        inner, constraints = _type(arguments[0]), {}
        for meta in arguments[1:]:
            if isinstance(meta, Meta):
                limits = ("ge", "le", "min_length", "max_length")
                constraints |= {name: getattr(meta, name) for name in limits if getattr(meta, name) is not None}
                if meta.pattern is not None:
                    readable = meta.pattern.replace("(?s:.*\\S)?\\Z", ".*$").replace("\\Z", "$")
                    constraints["pattern"] = readable.replace(r"(?!\.{1,2}$)", "")  # its engine has no look-ahead
        return Annotated[inner, Field(**constraints)] if constraints else inner
    if origin is tuple:
        return list[_type(arguments[0])]
    if type(None) in arguments or UnsetType in arguments:
        members = (type(None) if argument in (type(None), UnsetType) else _type(argument) for argument in arguments)
        return Union[tuple(members)]  # noqa: UP007
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return model_of(hint)
    return hint


Body = model_of(Account)
app = FastAPI(openapi_url=None)


@app.get("/livez")
async def livez() -> Response:
    return Response(b"{}")


@app.post("/v2/data-import/accounts/validate/")
async def validate(account: Body) -> Response:  # type: ignore[valid-type]
    return Response(b"{}", media_type="application/json")


if __name__ == "__main__":
    serve(app)
