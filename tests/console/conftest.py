"""Fast password hashing for tests: a real hash is slow on purpose."""

import pytest
from argon2 import PasswordHasher

from console.access import passwords


@pytest.fixture(autouse=True)
def passwords_are_hashed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use cheap parameters. `test_passwords.py` tests those of the service."""
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
