"""Sign-in at an OpenID Connect provider: the authorization code flow with PKCE, state and nonce.

The provider identifies the user. A claim that the settings name gives the user's role, organisation and suppliers. The
claim is read at each sign-in, so a role that was removed at the provider is removed in the console at the next sign-in.
"""

import hmac
import time
from typing import Any

import httpx
import msgspec
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import JWTClaimsRegistry

from console.settings import OpenIdGrant, OpenIdSettings
from projections.auxiliary.sessions import new_token

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
TIMEOUT_S = 5.0
METADATA_LASTS_S = 3600.0
MAX_ANSWER_BYTES = 1_000_000


class OpenIdFailed(Exception):
    """The provider does not answer, or its answer is not valid. The message is for the log."""


class OpenIdIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A user whom the provider has identified. `email` is the subject claim if the provider returns no address."""

    openid: str
    email: str
    is_email_verified: bool
    name: str
    grant: OpenIdGrant | None
    """Role, organisation and suppliers of the user; None if no value of the claim grants a role."""


class OpenIdProvider:
    """The provider of the settings. Its metadata and keys are cached for an hour."""

    failures = OpenIdFailed

    def __init__(self, settings: OpenIdSettings) -> None:
        self._settings = settings
        self._metadata: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._read_at = 0.0

    async def address(self, redirect_uri: str) -> tuple[str, str]:
        """Return the provider's address for the browser, and the secrets of the sign-in attempt for a cookie.

        Raises OpenIdFailed.
        """
        state, nonce, verifier = new_token(), new_token(), new_token() + new_token()
        async with self._client() as client:
            await self._discover(client)
        address = prepare_grant_uri(
            self._metadata["authorization_endpoint"],
            self._settings.client_id,
            "code",
            redirect_uri=redirect_uri,
            scope="openid email profile",
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return str(address), f"{state}.{nonce}.{verifier}"

    async def identity(self, code: str, state: str, attempt: str, redirect_uri: str) -> OpenIdIdentity:
        """Exchange the code that the browser brought back from the provider, and return the user. Raises OpenIdFailed.

        `attempt` is the cookie's value from `address`.
        """
        sent_state, _, remaining = attempt.partition(".")
        nonce, _, verifier = remaining.partition(".")
        if not verifier or not hmac.compare_digest(sent_state.encode(), state.encode()):
            raise OpenIdFailed("the browser has not begun this attempt")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        auth = (self._settings.client_id, self._settings.client_secret)
        async with self._client() as client:
            await self._discover(client)
            tokens = await _json(client.post(self._metadata["token_endpoint"], data=form, auth=auth))
            claims = await self._claims(client, str(tokens.get("id_token", "")), nonce)
            if self._settings.claim not in claims and "userinfo_endpoint" in self._metadata:
                headers = {"Authorization": f"Bearer {tokens.get('access_token', '')}"}
                more = await _json(client.get(self._metadata["userinfo_endpoint"], headers=headers))
                if more.get("sub") == claims["sub"]:
                    claims = more | claims
        return self._identity_of(claims)

    def _identity_of(self, claims: dict[str, Any]) -> OpenIdIdentity:
        claim = claims.get(self._settings.claim, [])
        values = [str(value) for value in claim] if isinstance(claim, list) else [str(claim)]
        return OpenIdIdentity(
            openid=f"{claims['iss']} {claims['sub']}",
            email=str(claims.get("email") or claims["sub"]),
            is_email_verified=claims.get("email_verified") is True,
            name=str(claims.get("name", "")),
            grant=next((grant for value, grant in self._settings.grants if value in values), None),
        )

    async def _claims(self, client: httpx.AsyncClient, id_token: str, nonce: str) -> dict[str, Any]:
        """Verify that the provider has signed the token for this client and this attempt, and return its claims.

        Raises OpenIdFailed.
        """
        registry = JWTClaimsRegistry(
            leeway=60,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            nonce={"essential": True, "value": nonce},
            sub={"essential": True},
            exp={"essential": True},
        )
        try:
            if self._keys is None:
                self._keys = KeySet.import_key_set(await _json(client.get(self._metadata["jwks_uri"])))  # type: ignore[arg-type]
            claims = jwt.decode(id_token, self._keys, algorithms=ALGORITHMS).claims
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            self._keys = None  # the provider's keys may have changed: the next attempt reads them again
            raise OpenIdFailed(f"the ID token is not valid: {type(error).__name__}") from error
        return dict(claims)

    async def _discover(self, client: httpx.AsyncClient) -> None:
        if self._metadata and time.monotonic() - self._read_at < METADATA_LASTS_S:
            return
        issuer = self._settings.issuer
        metadata = await _json(client.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration"))
        needed = {"authorization_endpoint", "token_endpoint", "jwks_uri"}
        if metadata.get("issuer") != issuer or not needed <= metadata.keys():
            raise OpenIdFailed(f"the metadata at {issuer} is not that of this issuer")
        self._metadata, self._keys, self._read_at = metadata, None, time.monotonic()

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False)


async def _json(request: Any) -> dict[str, Any]:
    """Await the request, and return the JSON object in the provider's answer. Raises OpenIdFailed."""
    try:
        answer = await request
        answer.raise_for_status()
        body = answer.json() if len(answer.content) <= MAX_ANSWER_BYTES else None
    except (httpx.HTTPError, ValueError) as error:
        raise OpenIdFailed(f"the provider does not answer: {type(error).__name__}") from error
    if not isinstance(body, dict):
        raise OpenIdFailed("the provider does not answer with an object")
    return body
