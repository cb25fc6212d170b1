"""Authentication of callers by keys and tokens, and the rights of roles.

A key is `ilk_<id>_<secret>`. An access token is a JWT that is valid for 60 minutes, signed with HS256. Every request
looks up the key of its token, so that revoking the key also revokes its tokens.
"""

import hmac
import re
import secrets
import time
from functools import cached_property
from typing import Any

import msgspec
from starlette.requests import Request

from api.access.api_key import API_KEY, digest_of
from api.access.directory import Directory, Key
from api.access.rate_limit import RateLimit
from api.access.step_keys import STEP_ID, STEP_TOKEN, StepKeys, may_call
from api.http.fields import field
from api.http.paths import ANSWER_HEADERS
from api.http.request_log import ORGANISATION
from api.http.status_codes import ApiError
from schemas.sentence import Sentence

ACCESS_S = 60 * 60
REFRESH_S = 7 * 24 * 60 * 60
ISSUER = "importledger"
ALGORITHM = "HS256"
MAX_CACHED_TOKENS = 10_000

_SCHEME = re.compile(r"(?:(token|bearer|jwt)\s+)?(\S+)\Z", re.IGNORECASE)

WRITERS = frozenset({"importer", "operator"})
DECIDERS = frozenset({"importer", "support", "operator"})
"""Roles that may decide about an import. Auditors only read."""
AUDITORS = frozenset({"auditor", "support", "operator"})
"""Roles that may read histories and differences between payloads."""
READERS = frozenset({"importer", "auditor", "support", "operator"})


class Token(msgspec.Struct, frozen=True):
    """A signed token and its claims."""

    text: str
    claims: dict[str, Any]


class Authenticator:
    """Checks credentials against the directory, and issues tokens."""

    def __init__(self, directory: Directory, steps: StepKeys, token_key: bytes, limit: RateLimit) -> None:
        self._directory = directory
        self._steps = steps
        self._limit = limit
        self._token_key = token_key
        self._claims: dict[str, dict[str, Any]] = {}

    async def caller(self, request: Request, roles: frozenset[str]) -> Key:
        """Return the key of the Authorization header.

        Raises ApiError 401, 403 if its role does not allow the request, 429 if it makes too many requests.
        """
        header = field(request, b"authorization")
        if not header:
            raise _unauthenticated(
                Sentence("Authentication credentials were not provided.", "Anmeldedaten wurden nicht angegeben.")
            )
        match = _SCHEME.match(header.strip())
        key = await self._key_of(match.group(2)) if match else None
        if key is None:
            raise authentication_failed()
        request.scope[ORGANISATION] = key.organisation
        if key.rate_per_s:
            request.scope[ANSWER_HEADERS] = await self._limit.take(key)
        if key.role not in roles or (key.step_kind and not may_call(key.step_kind, request)):
            raise ApiError(
                403, Sentence("This key's role does not allow this.", "Die Rolle dieses Schlüssels erlaubt das nicht.")
            )
        return key

    async def confirm(self, key: Key) -> None:
        """Raise ApiError 401 if the key was revoked, or its rights have changed since the request was admitted."""
        known = await self._valid_key(key.key_id)
        if known is key:
            return
        if known is None or (known.role, known.reach) != (key.role, key.reach):
            raise authentication_failed()

    async def key_of_secret(self, api_key: str) -> Key | None:
        """Return the key or running step with this text; None if it is unknown, revoked or has ended."""
        match = API_KEY.match(api_key) or STEP_TOKEN.match(api_key)
        if match is None:
            return None
        key = await self._valid_key(match.group(1))
        if key is None or not hmac.compare_digest(key.secret_sha256, digest_of(api_key)):
            return None
        return key

    async def key_of_refresh_token(self, text: str) -> Key | None:
        """Return the key of a refresh token; None if the token or its key is no longer valid."""
        claims = self._verified(text)
        return await self._valid_key(claims["key"]) if claims and claims["use"] == "refresh" else None

    def expires_at(self, text: str) -> int | None:
        """Return the expiry of a token that this service has signed, in seconds since 1970; None for any other text."""
        claims = self._claims_of(text)
        try:
            return int(claims["exp"]) if claims is not None else None
        except (ValueError, KeyError):
            return None

    def issue(self, key: Key, use: str = "access") -> Token:
        """Return a token for this key: `access` for 60 minutes, `refresh` for 7 days."""
        issued = int(time.time())
        claims = {
            "iss": ISSUER,
            "sub": key.organisation,
            "key": key.key_id,
            "role": key.role,
            "use": use,
            "iat": issued,
            "exp": issued + (ACCESS_S if use == "access" else REFRESH_S),
            "jti": secrets.token_hex(8),
        }
        jwt, key_to_sign = self._jwt
        return Token(jwt.encode({"alg": ALGORITHM}, claims, key_to_sign), claims)

    @cached_property
    def _jwt(self) -> tuple[Any, Any]:
        """Return the JWT library and the signing key. The library is large, so it is imported with the first token."""
        from joserfc import jwt
        from joserfc.jwk import OctKey

        return jwt, OctKey.import_key(self._token_key)

    def _claims_of(self, text: str) -> dict[str, Any] | None:
        """Return the claims of a token that this service signed, even if it has expired; None for any other text."""
        from joserfc.errors import JoseError

        jwt, key = self._jwt
        try:
            claims: dict[str, Any] = jwt.decode(text, key, algorithms=[ALGORITHM]).claims
        except (JoseError, ValueError):
            return None
        return claims

    async def _key_of(self, credential: str) -> Key | None:
        if credential.startswith(("ilk_", "ils_")):
            return await self.key_of_secret(credential)
        claims = self._verified(credential)
        return await self._valid_key(claims["key"]) if claims and claims["use"] == "access" else None

    async def _valid_key(self, key_id: str) -> Key | None:
        if key_id.startswith(STEP_ID):
            return await self._steps.key(key_id)
        key = self._directory.key(key_id)
        if key is None:
            await self._directory.refresh()
            key = self._directory.key(key_id)
        return key if key is not None and key.revoked_at is None else None

    def _verified(self, text: str) -> dict[str, Any] | None:
        claims = self._claims.get(text)
        if claims is None:
            claims = self._claims_of(text)
            if claims is None or claims.get("iss") != ISSUER or not {"key", "use", "exp"} <= claims.keys():
                return None
            if len(self._claims) >= MAX_CACHED_TOKENS:
                self._claims.clear()
            self._claims[text] = claims
        return claims if claims["exp"] > time.time() else None


def authentication_failed() -> ApiError:
    """Return the refusal of invalid or expired credentials."""
    return _unauthenticated(
        Sentence("The credentials are not valid.", "Die Anmeldedaten sind ungültig."), code="authentication_failed"
    )


def _unauthenticated(detail: Sentence, *, code: str = "") -> ApiError:
    return ApiError(401, detail, code=code, headers={"WWW-Authenticate": "Token"})
