"""Answers as JSON, and how a request's body is read."""

import asyncio
from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from api.fields import field
from api.languages import JSON, Language, language_headers, language_of
from api.limits import (
    BODY_TIMEOUT_S,
    MAX_ANSWER_BYTES,
    MAX_BODY_BYTES,
    MAX_DISCARDED_BYTES,
    MAX_HELD_BYTES,
    MAX_STRANGER_BODY_BYTES,
    MAX_STRANGER_HELD_BYTES,
    STRANGER_BODY_TIMEOUT_S,
)
from api.status_codes import ApiError
from schemas.sentence import Sentence


def refuse_large_answer(body: bytes) -> None:
    """Raises ApiError 413 where an answer that gives back what was sent would be too large."""
    if len(body) > MAX_ANSWER_BYTES:
        most = MAX_ANSWER_BYTES
        raise ApiError(
            413,
            Sentence(
                f"What is answered with its content has at most {most} bytes.",
                f"Was mit seinem Inhalt beantwortet wird, hat höchstens {most} Bytes.",
            ),
        )


class JsonResponse(Response):
    media_type = "application/json"


class NothingResponse(JsonResponse):
    """`{}`, which most requests are answered with."""

    def __init__(self, status: int) -> None:
        self.status_code = status
        self.body = b"{}"
        self.background = None
        self.raw_headers = [*_OF_NOTHING]


_OF_NOTHING = JsonResponse(b"{}").raw_headers


def encoded(body: Any, language: Language = "en") -> bytes:
    """A body as JSON; decimals as text, sentences in this language."""
    return JSON[language].encode(body)


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return JsonResponse(encoded(body), status, headers)


def spoken_response(
    request: Request, body: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A body that holds sentences, in the language that the caller prefers."""
    language = language_of(request)
    return JsonResponse(encoded(body, language), status, {**(headers or {}), **language_headers(language)})


class Room:
    """The bodies of one kind of caller: how large and slow each may be, and how many bytes of them are held.

    What is held belongs to requests that are not answered yet.
    """

    def __init__(self, *, of_body: int, of_all: int, timeout_s: float) -> None:
        self.of_body = of_body
        self.timeout_s = timeout_s
        self._of_all = of_all
        self._bytes = 0

    def add(self, request: Request, count: int) -> None:
        """Raises ApiError 503 when it would be too much."""
        if self._bytes + count > self._of_all:
            raise ApiError(503, _TOO_BUSY, headers={"Retry-After": "1"})
        self._bytes += count
        request.scope[HELD_BYTES] = (self, request.scope.get(HELD_BYTES, (self, 0))[1] + count)

    def release(self, count: int) -> None:
        self._bytes -= count


HELD_BYTES = "importledger.held_bytes"
WHOLE_BODY = "importledger.whole_body"
"""Keys in the ASGI scope: what is held for a request, and that nothing of its body is still to arrive."""
CALLERS = Room(of_body=MAX_BODY_BYTES, of_all=MAX_HELD_BYTES, timeout_s=BODY_TIMEOUT_S)
"""For bodies of callers who have shown their credentials."""
STRANGERS = Room(of_body=MAX_STRANGER_BODY_BYTES, of_all=MAX_STRANGER_HELD_BYTES, timeout_s=STRANGER_BODY_TIMEOUT_S)
"""For bodies of all others: they have room of their own, so that they take none from callers."""


def release(scope: Scope) -> None:
    """Let go of what is held for a request, when it has been answered."""
    if (held := scope.pop(HELD_BYTES, None)) is not None:
        room, count = held
        room.release(count)


async def read_body(request: Request, room: Room = CALLERS, *, is_form: bool = False) -> bytes:
    """The bytes of a JSON body, or of a form.

    Raises ApiError for a wrong content type or coding, and for too many or too slow bytes.
    """
    content_type = field(request, b"content-type")
    if content_type is not None and not (_is_form(content_type) if is_form else _is_json(content_type)):
        media = _FORMS[0] if is_form else "application/json"
        raise ApiError(415, Sentence(f"The body is expected as {media}.", f"Der Inhalt wird als {media} erwartet."))
    coding = field(request, b"content-encoding")
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        raise ApiError(415, _NO_ENCODING, headers={"Accept-Encoding": "identity"})
    if WHOLE_BODY in request.scope:
        return await _received(request, room)
    reading = asyncio.current_task()
    assert reading is not None
    is_late = False

    def give_up() -> None:
        nonlocal is_late
        is_late = True
        reading.cancel()

    timer = asyncio.get_running_loop().call_later(room.timeout_s, give_up)
    try:
        return await _received(request, room)
    except asyncio.CancelledError:
        if not is_late:
            raise
        raise ApiError(408, _TOO_SLOW, headers={"Connection": "close"}) from None
    finally:
        timer.cancel()


async def _received(request: Request, room: Room) -> bytes:
    """The body without a byte order mark, or ApiError 413.

    A body that is too large is read to its end and dropped, so that the client reads the answer.
    """
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ApiError(400, _GONE, code="client_disconnected")
        chunk = message.get("body", b"")
        size += len(chunk)
        more = message.get("more_body", False)
        if size <= room.of_body:
            room.add(request, len(chunk))
            chunks.append(chunk)
        elif size > MAX_DISCARDED_BYTES or not more:
            most = room.of_body
            detail = Sentence(
                f"A body must have at most {most} bytes.", f"Ein Inhalt darf höchstens {most} Bytes haben."
            )
            raise ApiError(413, detail, headers={"Connection": "close"})
        elif chunks:
            chunks.clear()
            release(request.scope)
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    return body.removeprefix(BOM_UTF8)


_NO_ENCODING = Sentence(
    "The body is expected as it is, without Content-Encoding.",
    "Der Inhalt wird unverändert erwartet, ohne Content-Encoding.",
)
_TOO_BUSY = Sentence("The service has too much to do at the moment.", "Der Dienst hat im Augenblick zu viel zu tun.")
_TOO_SLOW = Sentence("The body did not arrive in time.", "Der Inhalt kam nicht rechtzeitig an.")
_GONE = Sentence("The client went away.", "Der Client hat die Verbindung beendet.")


_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def _is_json(content_type: str) -> bool:
    if content_type == "application/json":  # as most say it
        return True
    kind = _kind_of(content_type)
    return kind == "application/json" or kind.endswith("+json")


def _is_form(content_type: str) -> bool:
    return _kind_of(content_type) in _FORMS


def _kind_of(content_type: str) -> str:
    return content_type.split(";", 1)[0].strip().lower()
