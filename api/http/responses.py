"""Answers as JSON, and the reading of request bodies."""

import asyncio
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from api.http.fields import field
from api.http.languages import JSON, Language, language_headers, language_of
from api.http.limits import (
    ANONYMOUS_BODY_TIMEOUT_S,
    BODY_TIMEOUT_S,
    MAX_ANONYMOUS_BODY_BYTES,
    MAX_ANONYMOUS_HELD_BYTES,
    MAX_ANSWER_BYTES,
    MAX_BODY_BYTES,
    MAX_DISCARDED_BYTES,
    MAX_HELD_BYTES,
    MAX_NETWORK_HELD_BYTES,
)
from api.http.networks import network_of, peer_of
from api.http.request_log import ORGANISATION
from api.http.status_codes import ApiError
from schemas.sentence import Sentence


def refuse_large_answer(body: bytes) -> None:
    """Raise ApiError 413 if an answer that repeats the content of a request would be too large."""
    if len(body) > MAX_ANSWER_BYTES:
        most = MAX_ANSWER_BYTES
        raise ApiError(
            413,
            Sentence(
                f"An answer that repeats a payload must have at most {most} bytes.",
                f"Eine Antwort, die Daten wiederholt, darf höchstens {most} Bytes haben.",
            ),
        )


_PRIVATE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class PrivateResponse(Response):
    """An answer that may contain personal data.

    Its header forbids caches to store it, and browsers to guess its type.
    """

    def init_headers(self, headers: Mapping[str, str] | None = None) -> None:
        super().init_headers({**_PRIVATE, **(headers or {})})


class JsonResponse(PrivateResponse):
    media_type = "application/json"


class EmptyResponse(JsonResponse):
    """`{}`, the answer to most requests."""

    def __init__(self, status: int) -> None:
        self.status_code = status
        self.body = b"{}"
        self.background = None
        self.raw_headers = [*_EMPTY_HEADERS]


_EMPTY_HEADERS = JsonResponse(b"{}").raw_headers


def encoded(body: Any, language: Language = "en") -> bytes:
    """Return a body as JSON, with decimals as text and sentences in this language."""
    return JSON[language].encode(body)


def json_response(body: Any, headers: Mapping[str, str] | None = None) -> Response:
    return JsonResponse(encoded(body), 200, headers)


def localised_response(
    request: Request, body: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a body with sentences in the language that the caller prefers."""
    language = language_of(request)
    return JsonResponse(encoded(body, language), status, {**(headers or {}), **language_headers(language)})


class HeldBody:
    """Bytes of a request's body in memory, and its sender: an organisation, or a network without credentials."""

    def __init__(self, memory: "BodyMemory", holder: str) -> None:
        self.memory = memory
        self.holder = holder
        self.bytes = 0
        self.cut: Callable[[], None] | None = None
        """Function that ends the request while its body arrives; None before and after that."""


class BodyMemory:
    """Memory limit for bodies of one kind of caller: size and time of each body, and bytes of all bodies in memory.

    Bytes count until the request is answered. If a body would exceed the limit, a request of the organisation or
    network with the most bytes is ended: the request whose body has been arriving for longest. Therefore slow senders
    cannot block others.
    """

    def __init__(self, *, per_body: int, total: int, timeout_s: float, per_holder: int | None = None) -> None:
        """Limits in bytes: of a body, of all bodies, and of all bodies of an organisation or network [default:
        `total`].
        """
        self.per_body = per_body
        self.timeout_s = timeout_s
        self._limit = total
        self._per_holder = per_holder or total
        self._bytes: Counter[str] = Counter()
        self._total = 0
        self._held: dict[str, list[HeldBody]] = {}
        """Records by organisation or network, in the order in which the requests began."""

    def held(self, request: Request, address: str = "") -> HeldBody:
        """Return the record of the request's bytes, which the first call creates.

        `address` is the client's address [default: the peer's].
        """
        held: HeldBody | None = request.scope.get(HELD)
        if held is None:
            held = HeldBody(self, request.scope.get(ORGANISATION) or network_of(address or peer_of(request)))
            request.scope[HELD] = held
            self._held.setdefault(held.holder, []).append(held)
        return held

    def add(self, request: Request, count: int) -> None:
        """Count more bytes of a request. Raises ApiError 503 beyond the limit, if no slower request can be ended."""
        held = self.held(request)
        while (over_limit := self._over_limit(held.holder, count)) is not None:
            slowest = next((other for other in self._held[over_limit] if other.cut is not None and other.bytes), held)
            if slowest is held or slowest.cut is None:
                raise too_busy()
            slowest.cut()
            self.release(slowest)
        held.bytes += count
        self._bytes[held.holder] += count
        self._total += count

    def _over_limit(self, holder: str, count: int) -> str | None:
        """Return the organisation or network that uses too much memory for further bytes; None if they fit."""
        if self._bytes[holder] + count > self._per_holder:
            return holder
        if self._total + count > self._limit:
            return max(self._bytes, key=self._bytes.__getitem__)
        return None

    def release(self, held: HeldBody) -> None:
        """Stop counting all bytes of a request."""
        self._bytes[held.holder] -= held.bytes
        self._total -= held.bytes
        held.bytes, held.cut = 0, None
        siblings = self._held.get(held.holder, [])
        if held in siblings:
            siblings.remove(held)
        if not siblings:
            self._held.pop(held.holder, None)
            del self._bytes[held.holder]


HELD = "importledger.held"
WHOLE_BODY = "importledger.whole_body"
"""Keys in the ASGI scope: the record of held bytes, and True if the whole body has arrived."""
CALLERS = BodyMemory(per_body=MAX_BODY_BYTES, total=MAX_HELD_BYTES, timeout_s=BODY_TIMEOUT_S)
"""Limit for bodies of callers with valid credentials."""
ANONYMOUS = BodyMemory(
    per_body=MAX_ANONYMOUS_BODY_BYTES,
    per_holder=MAX_NETWORK_HELD_BYTES,
    total=MAX_ANONYMOUS_HELD_BYTES,
    timeout_s=ANONYMOUS_BODY_TIMEOUT_S,
)
"""Limit for bodies without valid credentials.

It is separate, so that such bodies cannot use up the memory for callers.
"""


def too_busy(*, closes: bool = False) -> ApiError:
    """Return the refusal of a body that exceeds the memory limit. `closes`: the body still arrives, so close."""
    return ApiError(503, _TOO_BUSY, headers={"Retry-After": "1"} | ({"Connection": "close"} if closes else {}))


def release(scope: Scope) -> None:
    """Stop counting the bytes of an answered request, whose body is no longer in memory."""
    if (held := scope.pop(HELD, None)) is not None:
        held.memory.release(held)


async def read_body(
    request: Request, memory: BodyMemory = CALLERS, *, address: str = "", is_form: bool = False
) -> bytes:
    """Return the bytes of a JSON body, or of a form. `address` is the client's [default: the peer's].

    Raises ApiError for a wrong content type or coding, and for a body that is too large or too slow.
    """
    content_type = field(request, b"content-type")
    if content_type is not None and not (_is_form(content_type) if is_form else _is_json(content_type)):
        media = _FORMS[0] if is_form else "application/json"
        raise ApiError(415, Sentence(f"The Content-Type must be {media}.", f"Der Content-Type muss {media} sein."))
    coding = field(request, b"content-encoding")
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        raise ApiError(415, _NO_ENCODING, headers={"Accept-Encoding": "identity"})
    held = memory.held(request, address)
    if WHOLE_BODY in request.scope:
        return await _received(request, memory)
    reading = asyncio.current_task()
    assert reading is not None
    refusal: ApiError | None = None

    def end_reading(refusal_to_raise: ApiError) -> None:
        nonlocal refusal
        refusal = refusal_to_raise
        reading.cancel()

    timer = asyncio.get_running_loop().call_later(
        memory.timeout_s, end_reading, ApiError(408, _TOO_SLOW, headers={"Connection": "close"})
    )
    held.cut = partial(end_reading, too_busy(closes=True))
    try:
        return await _received(request, memory)
    except asyncio.CancelledError:
        if refusal is None:
            raise
        raise refusal from None
    finally:
        timer.cancel()
        held.cut = None


async def _received(request: Request, memory: BodyMemory) -> bytes:
    """Return the body without a byte order mark. Raises ApiError 413.

    A body that is too large is read to its end and discarded, so that the client reads the answer.
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
        if size <= memory.per_body:
            memory.add(request, len(chunk))
            chunks.append(chunk)
        elif size > MAX_DISCARDED_BYTES or not more:
            most = memory.per_body
            detail = Sentence(
                f"A body must have at most {most} bytes.", f"Ein Inhalt darf höchstens {most} Bytes haben."
            )
            raise ApiError(413, detail, headers={"Connection": "close"})
        elif chunks:
            chunks.clear()
            memory.release(memory.held(request))
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    return body.removeprefix(BOM_UTF8)


_NO_ENCODING = Sentence(
    "The body must be sent without Content-Encoding.",
    "Der Inhalt muss ohne Content-Encoding gesendet werden.",
)
_TOO_BUSY = Sentence(
    "The service is overloaded at the moment. Repeat the request later.",
    "Der Dienst ist im Augenblick überlastet. Wiederholen Sie die Anfrage später.",
)
_TOO_SLOW = Sentence("The body did not arrive in time.", "Der Inhalt kam nicht rechtzeitig an.")
_GONE = Sentence("The client went away.", "Der Client hat die Verbindung beendet.")


_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")


def _is_json(content_type: str) -> bool:
    if content_type == "application/json":  # the usual case
        return True
    kind = _kind_of(content_type)
    return kind == "application/json" or kind.endswith("+json")


def _is_form(content_type: str) -> bool:
    return _kind_of(content_type) in _FORMS


def _kind_of(content_type: str) -> str:
    return content_type.split(";", 1)[0].strip().lower()
