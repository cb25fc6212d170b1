"""Passwords are kept as argon2id, with 64 MiB and three passes each, so that guessing is slow."""

import asyncio

from console.passwords import HASHER, hashed_password, is_password


def test_a_hash_takes_64_mib_and_three_passes() -> None:
    """Of the service's own hasher, as it was imported: other tests of this folder have another in its place."""
    assert HASHER.hash("three plain words").startswith("$argon2id$v=19$m=65536,t=3,p=1$")


def test_a_password_is_known_again_and_another_is_not_nor_that_of_who_has_none() -> None:
    async def run() -> None:
        kept = await hashed_password("three plain words")
        assert await is_password(kept, "three plain words")
        assert not await is_password(kept, "three plain word")
        assert not await is_password("", "three plain words")
        assert not await is_password("", "nobody has this password")

    asyncio.run(run())
