"""Signing in by an OpenID Connect provider: the authorization code flow with PKCE, state and nonce.

The provider says who somebody is, and a claim of its own what they may do here: `ConsoleSettings.openid` maps the
values of that claim to roles. Everything is asked anew at each sign-in, so that a role that is taken away at the
provider is gone here at the next.
"""

import time
from typing import Any

import httpx
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import JWTClaimsRegistry

from console.access.openid import OpenIdAttempt, OpenIdFailed, OpenIdIdentity
from console.settings import OpenIdSettings

SCOPE = "openid email profile"
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
TIMEOUT_S = 5.0
KNOWN_FOR_S = 3600.0
MAX_ANSWER_BYTES = 1_000_000


class OpenIdProvider:
    """The provider that the settings name. What it says of itself is remembered for an hour."""

    def __init__(self, settings: OpenIdSettings) -> None:
        self._settings = settings
        self._known: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._asked_at = 0.0

    async def address(self, attempt: OpenIdAttempt, redirect_uri: str) -> str:
        """Where the browser is sent. Raises OpenIdFailed."""
        async with self._client() as client:
            await self._discover(client)
        return str(
            prepare_grant_uri(
                self._known["authorization_endpoint"],
                self._settings.client_id,
                "code",
                redirect_uri=redirect_uri,
                scope=SCOPE,
                state=attempt.state,
                nonce=attempt.nonce,
                code_challenge=create_s256_code_challenge(attempt.verifier),
                code_challenge_method="S256",
            )
        )

    async def identity(self, code: str, attempt: OpenIdAttempt, redirect_uri: str) -> OpenIdIdentity:
        """Who the code speaks of. Raises OpenIdFailed."""
        async with self._client() as client:
            await self._discover(client)
            answer = await self._asked(
                client.post(
                    self._known["token_endpoint"],
                    data={
                        "grant_type": "authorization_code",
                        "code": code,
                        "redirect_uri": redirect_uri,
                        "code_verifier": attempt.verifier,
                    },
                    auth=(self._settings.client_id, self._settings.client_secret),
                )
            )
            claims = await self._claims(client, str(answer.get("id_token", "")), attempt)
            if self._settings.claim not in claims and "userinfo_endpoint" in self._known:
                token = str(answer.get("access_token", ""))
                headers = {"Authorization": f"Bearer {token}"}
                told = await self._asked(client.get(self._known["userinfo_endpoint"], headers=headers))
                if told.get("sub") == claims["sub"]:
                    claims = told | claims
        return self._identity_of(claims)

    def _identity_of(self, claims: dict[str, Any]) -> OpenIdIdentity:
        said = claims.get(self._settings.claim, [])
        values = [str(value) for value in said] if isinstance(said, list) else [str(said)]
        grant = next((grant for value, grant in self._settings.grants if value in values), None)
        name = str(claims.get("name", ""))
        return OpenIdIdentity(
            openid=f"{claims['iss']} {claims['sub']}",
            email=str(claims.get("email") or claims["sub"]),
            is_email_verified=claims.get("email_verified") is True,
            name=name,
            grant=grant,
        )

    async def _claims(self, client: httpx.AsyncClient, id_token: str, attempt: OpenIdAttempt) -> dict[str, Any]:
        """What the token says, signed by the provider for us and for this attempt."""
        registry = JWTClaimsRegistry(
            leeway=60,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.client_id},
            nonce={"essential": True, "value": attempt.nonce},
            sub={"essential": True},
            exp={"essential": True},
        )
        try:
            claims = jwt.decode(id_token, await self._key_set(client), algorithms=ALGORITHMS).claims
            registry.validate(claims)
        except (JoseError, ValueError) as error:
            self._keys = None  # they may have changed: the next attempt asks for them
            raise OpenIdFailed(f"the ID token does not hold: {type(error).__name__}") from error
        return dict(claims)

    async def _key_set(self, client: httpx.AsyncClient) -> KeySet:
        if self._keys is None:
            self._keys = KeySet.import_key_set(await self._asked(client.get(self._known["jwks_uri"])))  # type: ignore[arg-type]
        return self._keys

    async def _discover(self, client: httpx.AsyncClient) -> None:
        if self._known and time.monotonic() - self._asked_at < KNOWN_FOR_S:
            return
        issuer = self._settings.issuer
        known = await self._asked(client.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration"))
        if (
            known.get("issuer") != issuer
            or not {"authorization_endpoint", "token_endpoint", "jwks_uri"} <= known.keys()
        ):
            raise OpenIdFailed(f"what is at {issuer} is not that issuer")
        self._known, self._keys, self._asked_at = known, None, time.monotonic()

    async def _asked(self, request: Any) -> dict[str, Any]:
        """The JSON object that the provider answers. Raises OpenIdFailed."""
        try:
            answer = await request
            answer.raise_for_status()
            told = answer.json() if len(answer.content) <= MAX_ANSWER_BYTES else None
        except (httpx.HTTPError, ValueError) as error:
            raise OpenIdFailed(f"the provider does not answer: {type(error).__name__}") from error
        if not isinstance(told, dict):
            raise OpenIdFailed("the provider does not answer with an object")
        return told

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False)
