"""Passwords: hashed with argon2id, checked for length and against lists of common passwords.

A process hashes two passwords at a time, but only one of each host, so that many tries of one host delay only this
host.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import cache

import msgspec
from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from api.http.status_codes import ApiError
from schemas.sentence import Sentence

MIN_LENGTH, MAX_LENGTH = 12, 256
MAX_SCORED_LENGTH = 32
"""Characters that zxcvbn scores.

Further characters are ignored, because the time of zxcvbn grows fast with the length.
"""
LEAST_SCORE = 3
"""Lowest accepted score of zxcvbn: 100 million guesses."""
MAX_WAITING = 50
"""Sign-ins of one host at a time. Further sign-ins are refused, since each waiting request takes memory."""
_TOO_MANY = Sentence(
    "Too many sign-ins from this address wait at the moment. Try again later.",
    "Von dieser Adresse warten im Augenblick zu viele Anmeldungen. Versuchen Sie es später noch einmal.",
)
HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
"""Parameters of OWASP's Password Storage Cheat Sheet. Hashes with other parameters are renewed at the next sign-in."""


def has_wrong_length(password: str) -> bool:
    """Return True if a password is too short, or too long to have been typed."""
    return not MIN_LENGTH <= len(password) <= MAX_LENGTH


class _Host(msgspec.Struct):
    """Tries of one host. One try runs or waits for the shared limit; all other tries wait for the lock."""

    lock: asyncio.Lock
    number: int = 0


class HostLimit:
    """Limits the number of concurrent checks of passwords: a total limit, and one for each host."""

    def __init__(self, at_a_time: int) -> None:
        self._limit = asyncio.Semaphore(at_a_time)
        self._hosts: dict[str, _Host] = {}

    @contextlib.asynccontextmanager
    async def slot(self, name: str) -> AsyncIterator[None]:
        """Run the block when the limit allows it for this host.

        Raises ApiError 429 if too many checks of the host wait.
        """
        host = self._hosts.setdefault(name, _Host(asyncio.Lock()))
        if host.number >= MAX_WAITING:
            raise ApiError(429, _TOO_MANY, headers={"Retry-After": "10"})
        host.number += 1
        try:
            async with host.lock, self._limit:
                yield
        finally:
            host.number -= 1
            if not host.number:
                del self._hosts[name]


_limit = HostLimit(2)


async def hashed_password(password: str, host: str) -> str:
    """Return the hash of the password. Waits until the limit allows it for this host."""
    async with _limit.slot(host):
        return await asyncio.to_thread(HASHER.hash, password)


async def is_guessable(password: str, known: Sequence[str], host: str) -> bool:
    """Return True for a common password, and for a password of words about its user (`known`)."""
    from zxcvbn import zxcvbn  # imported here: the lists of zxcvbn take much memory, and passwords are seldom set

    async with _limit.slot(host):
        result = await asyncio.to_thread(zxcvbn, password[:MAX_SCORED_LENGTH], user_inputs=known)
    return bool(result["score"] < LEAST_SCORE)


def is_outdated(password_hash: str) -> bool:
    """Return True for a hash with other parameters than `HASHER`."""
    return HASHER.check_needs_rehash(password_hash)


async def is_password(password_hash: str, password: str, host: str) -> bool:
    """Return True if the password matches the hash.

    Without a hash, this takes the same time, so that the time does not show which users exist.
    """
    async with _limit.slot(host):
        is_right = await asyncio.to_thread(_verify, password_hash or _dummy_hash(), password[: MAX_LENGTH + 1])
    return is_right and bool(password_hash)


def _verify(password_hash: str, password: str) -> bool:
    try:
        return HASHER.verify(password_hash, password)
    except (Argon2Error, InvalidHashError):
        return False


@cache
def _dummy_hash() -> str:
    return HASHER.hash("nobody has this password")
