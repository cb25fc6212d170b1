"""Passwords are hashed in no time here: a hash takes a quarter of a second of processor, on purpose."""

import pytest
from argon2 import PasswordHasher

from console.access import passwords


@pytest.fixture(autouse=True)
def passwords_are_hashed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody guesses; what the service itself uses is seen in `test_passwords.py`."""
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
