"""Numbers and contents of the accounts that a push has sent."""

from array import array

_LEAST_SLOTS = 1024


class SentAccounts:
    """Hashes of accounts, in 24 to 48 bytes each: a dict would need 150 bytes, for a million accounts 150 MB.

    Two different numbers have the same hash with a probability of 10^-7 in a book of a million accounts.
    """

    def __init__(self) -> None:
        self._count = 0
        self._numbers = array("q", bytes(8 * _LEAST_SLOTS))
        self._contents = array("q", bytes(8 * _LEAST_SLOTS))

    def has_other(self, number: object, content: bytes) -> bool:
        """Return True if the number was added with other content. Add a new number with its content."""
        key, value = hash(number) or 1, hash(content)
        slot = self._slot(key)
        if self._numbers[slot]:
            return self._contents[slot] != value
        self._numbers[slot], self._contents[slot] = key, value
        self._count += 1
        if self._count * 3 > len(self._numbers) * 2:
            self._grow()
        return False

    def _slot(self, key: int) -> int:
        """Return the slot of a hash, or the empty slot for it. An empty slot has the number 0."""
        numbers, last = self._numbers, len(self._numbers) - 1
        slot = key & last
        while numbers[slot] not in (0, key):
            slot = (slot + 1) & last
        return slot

    def _grow(self) -> None:
        former = zip(self._numbers, self._contents, strict=True)
        size = 2 * len(self._numbers)
        self._numbers, self._contents = array("q", bytes(8 * size)), array("q", bytes(8 * size))
        for number, content in former:
            if number:
                slot = self._slot(number)
                self._numbers[slot], self._contents[slot] = number, content
