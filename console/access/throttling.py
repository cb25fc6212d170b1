"""Delays after failed sign-ins. Pure.

An address that guesses the password of one account must soon wait for minutes. Guesses from many addresses delay the
account's own user by a few seconds and never lock them out.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from api.http.networks import host_of
from projections.auxiliary.sessions import Failures

MAX_PAIR_WAIT_S, MAX_ADDRESS_WAIT_S, MAX_DELAY_S = 900, 60, 4
FREE_OF_PAIR, FREE_OF_ADDRESS, FREE_OF_ACCOUNT = 5, 20, 10
"""Failures without a wait or delay: of user and address together, of an address, and of an account."""


class ThrottleKeys(msgspec.Struct, frozen=True):
    """Keys under which a failed sign-in is counted: account, network address, and both together."""

    account: str
    address: str
    pair: str

    @classmethod
    def of(cls, name: str, address: str) -> "ThrottleKeys":
        """Return the keys for `name` (the id of a user, or an unknown e-mail address) at a network address."""
        account, host = name.strip().lower(), host_of(address)
        return cls(f"account {account}", f"address {host}", f"pair {account} {host}")

    @property
    def names(self) -> list[str]:
        return [self.account, self.address, self.pair]


def wait_s(failures: Mapping[str, Failures], keys: ThrottleKeys, at: datetime) -> float:
    """Return the seconds until the next try is allowed; 0 if it is allowed now."""
    return max(
        _remaining_s(failures.get(keys.pair), FREE_OF_PAIR, MAX_PAIR_WAIT_S, at),
        _remaining_s(failures.get(keys.address), FREE_OF_ADDRESS, MAX_ADDRESS_WAIT_S, at),
    )


def delay_s(failures: Mapping[str, Failures], keys: ThrottleKeys) -> float:
    """Return the seconds by which the answer is delayed, whether the password is correct or not."""
    failures_of_key = failures.get(keys.account)
    return 0.0 if failures_of_key is None else min(MAX_DELAY_S, max(0, failures_of_key.number - FREE_OF_ACCOUNT) * 0.5)


def _remaining_s(failures_of_key: Failures | None, free: int, most_s: int, at: datetime) -> float:
    """Return the remaining wait [seconds], which doubles with each failure after `free` failures."""
    if failures_of_key is None or failures_of_key.number < free:
        return 0.0
    full_wait_s = float(min(most_s, 1 << min(failures_of_key.number - free + 1, 20)))
    return max(0.0, full_wait_s - (at - failures_of_key.last_at).total_seconds())
