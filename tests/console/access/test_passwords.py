"""Password hashes, guessable passwords, and the order in which hosts get a check of a password."""

import asyncio

import pytest
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st

from api.http.status_codes import ApiError
from console.access.passwords import (
    HASHER,
    MAX_WAITING,
    HostLimit,
    hashed_password,
    is_guessable,
    is_outdated,
    is_password,
)


@pytest.mark.asvs("V11.4.2")
def test_a_hash_takes_19_mib_and_two_passes() -> None:
    """Tests the hasher of the service, which other tests of this folder replace."""
    assert HASHER.hash("three plain words").startswith("$argon2id$v=19$m=19456,t=2,p=1$")


@pytest.mark.asvs("V6.2.8")
def test_a_password_is_known_again_and_another_is_not_nor_that_of_who_has_none() -> None:
    async def run() -> None:
        password_hash = await hashed_password("three plain words", "host")
        assert await is_password(password_hash, "three plain words", "host")
        assert not await is_password(password_hash, "three plain word", "host")
        assert not await is_password("", "three plain words", "host")
        assert not await is_password("", "nobody has this password", "host")
        former = PasswordHasher(time_cost=3, memory_cost=32, parallelism=1).hash("three plain words")
        assert await is_password(former, "three plain words", "host")
        assert (is_outdated(former), is_outdated(password_hash)) == (True, False)

    asyncio.run(run())


@pytest.mark.asvs("V6.1.2", "V6.2.4", "V6.2.5", "V6.2.11")
@pytest.mark.parametrize(
    ("password", "is_common"),
    [
        ("password1234", True),
        ("passwordpassword", True),
        ("123456789012", True),
        ("qwertzuiop12", True),
        ("a" * 256, True),
        ("anna@example.org", True),
        ("three plain words", False),
        ("three plain words" * 15, False),
    ],
)
def test_a_common_password_or_the_own_address_is_guessable(password: str, is_common: bool) -> None:
    known = ["anna@example.org", "anna", "example"]
    assert asyncio.run(is_guessable(password, known, "host")) is is_common


def test_a_host_waits_for_so_many_turns_at_most() -> None:
    async def run() -> None:
        limit = HostLimit(1)

        async def want(host: str) -> None:
            async with limit.slot(host):
                await asyncio.sleep(0)

        wanting = [want("host") for _ in range(MAX_WAITING + 5)]
        ended = await asyncio.gather(want("first"), *wanting, want("other"), return_exceptions=True)
        assert [type(outcome) for outcome in ended if outcome is not None] == [ApiError] * 5
        assert ended[-1] is None

    asyncio.run(run())


@pytest.mark.promise("passwords-guessed-same-moment")
@given(
    queues=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    at_a_time=st.integers(1, 3),
    gone=st.sets(st.integers(0, 60)),
)
def test_a_host_waits_for_one_turn_of_each_other_host_however_many_they_want(
    queues: list[int], at_a_time: int, gone: set[int]
) -> None:
    """The last host arrives after hosts that want many turns each, some of which were cancelled."""
    had: list[str] = []
    inside = most = 0

    async def run() -> None:
        limit = HostLimit(at_a_time)

        async def want(host: str) -> None:
            nonlocal inside, most
            async with limit.slot(host):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                had.append(host)
                inside -= 1

        wanting = [asyncio.create_task(want(f"h{host}")) for host, many in enumerate(queues) for _ in range(many)]
        await asyncio.sleep(0)
        last = asyncio.create_task(want("last"))
        await asyncio.sleep(0)
        before = len(had)
        for number in gone & set(range(len(wanting))):
            wanting[number].cancel()
        await asyncio.gather(*wanting, last, return_exceptions=True)
        assert had.index("last") - before <= at_a_time + len(queues)
        assert most <= at_a_time
        await asyncio.wait_for(asyncio.gather(*(want("again") for _ in range(at_a_time + 1))), 5)

    asyncio.run(run())
