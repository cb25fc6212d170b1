"""Passwords: argon2id, and length in the place of rules about characters.

Two are hashed at a time in a process, since each takes 64 MiB: whoever tries many makes others wait, and no more.
"""

import asyncio
from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

MIN_LENGTH, MAX_LENGTH = 12, 256
HASHER = PasswordHasher(time_cost=3, memory_cost=65_536, parallelism=1)
_turns = asyncio.Semaphore(2)


def misfits_password(password: str) -> bool:
    """Whether it is too short, or so long that nobody has typed it. What is in it does not matter."""
    return not MIN_LENGTH <= len(password) <= MAX_LENGTH


async def hashed_password(password: str) -> str:
    """What is kept of it."""
    async with _turns:
        return await asyncio.to_thread(HASHER.hash, password)


async def is_password(password_hash: str, password: str) -> bool:
    """Whether this is it. Takes as long where there is no such user, or where they have none."""
    async with _turns:
        is_right = await asyncio.to_thread(_verify, password_hash or _nobody_s_hash(), password[: MAX_LENGTH + 1])
    return is_right and bool(password_hash)


def _verify(password_hash: str, password: str) -> bool:
    try:
        return HASHER.verify(password_hash, password)
    except (Argon2Error, InvalidHashError):
        return False


@cache
def _nobody_s_hash() -> str:
    return HASHER.hash("nobody has this password")
