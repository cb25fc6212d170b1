"""Turns of suppliers: messages are filled from all suppliers in turn, so that none waits for all streams of another.

The lane of a supplier is a queue in memory with room for a limited number of streams. Further streams wait in the
database, where the sweeper finds them when the lane has room again.
"""

import time
from itertools import takewhile

import msgspec

from eventstore.log.payloads import MAX_OPEN_BYTES, in_pieces

LANE = 2_000
"""Streams in memory for one supplier, if few suppliers wait."""
FEW = 100
"""Streams in memory for one supplier, if very many suppliers wait."""
ALL_LANES = 100_000
"""Streams in memory for all suppliers together. Beyond, a supplier's lane takes `FEW`."""
ALONE = 20
"""Fixed cost of a message, as the number of imports that take a worker the same time."""
RING_AGAIN_AFTER_S = 5.0
"""Pause before a stream that still waits gets another message [seconds]. The first may be lost."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """Stream that waits since the event at the position. `is_alone`: it gets a message of its own."""

    position: int
    payload_bytes: int = 0
    is_alone: bool = False


class SupplierTurns:
    """Streams that wait for a message of one queue, by supplier, and streams that were put into one a moment ago."""

    def __init__(self, per_minute: int | None = None) -> None:
        """`per_minute`: streams of one supplier in the messages of a minute [default: no limit]."""
        self._lanes: dict[str, dict[str, Waiting]] = {}
        self._number = 0
        self._rung: dict[str, tuple[float, int]] = {}
        """Time when a stream was taken, and the position since which it had waited."""
        self._per_minute = per_minute
        self._minute = 0
        self._taken: dict[str, int] = {}
        """Streams taken in this minute, by supplier."""
        self.cut: set[str] = set()
        """Suppliers without room for a stream since the sweeper has read all waiting imports."""

    def __len__(self) -> int:
        return self._number

    @property
    def room(self) -> int:
        """Number of streams that a lane may hold at present."""
        share = ALL_LANES // (len(self._lanes) + 1) if self._number < ALL_LANES else 0
        return max(FEW, min(LANE, share))

    def full(self) -> list[str]:
        """Return the suppliers whose lanes are more than half full."""
        return [supplier for supplier, lane in self._lanes.items() if 2 * len(lane) > self.room]

    def add(self, supplier: str, stream: str, waiting: Waiting) -> bool:
        """Add a stream to its supplier's lane. Return False if there is no room.

        A stream that was taken a moment ago is added again only if it waits since a later event.
        """
        taken_at, position = self._rung.get(stream, (0.0, -1))
        if position >= waiting.position and time.monotonic() - taken_at < RING_AGAIN_AFTER_S:
            return True
        lane = self._lanes.setdefault(supplier, {})
        if stream not in lane:
            if len(lane) >= self.room:
                self.cut.add(supplier)
                return False
            self._number += 1
        lane[stream] = waiting
        return True

    def forget_taken(self) -> None:
        """Allow all streams to be added again at once: their messages may be lost."""
        self._rung.clear()

    def take(self, most: int) -> list[list[str]]:
        """Take streams from the lanes by turns, up to the cost `most`, and return them as messages.

        A stream costs 1, and ALONE in a message of its own. Workers process each message in one piece.
        """
        together: dict[str, int] = {}
        alone: list[list[str]] = []
        left = most
        self._forget_old()
        lanes = self._allowed()
        while lanes and left > 0:
            share = max(1, left // len(lanes))
            for supplier in lanes[:left]:
                left -= self._take_of(supplier, share, together, alone)
            lanes = self._allowed()
        return [*in_pieces(together, together.__getitem__, MAX_OPEN_BYTES), *alone]

    def _take_of(self, supplier: str, share: int, together: dict[str, int], alone: list[list[str]]) -> int:
        """Take a supplier's share, and return its cost. Its next turn comes after those of all others."""
        lane = self._lanes.pop(supplier)
        if self._per_minute is not None:
            share = min(share, self._per_minute - self._taken.get(supplier, 0))
        cost = 0
        taken = []
        for stream, waiting in lane.items():
            if cost >= share:
                break
            taken.append(stream)
            if waiting.is_alone:
                alone.append([stream])
            else:
                together[stream] = waiting.payload_bytes
            cost += ALONE if waiting.is_alone else 1
        for stream in taken:
            self._rung.pop(stream, None)
            self._rung[stream] = time.monotonic(), lane.pop(stream).position
        self._number -= len(taken)
        if self._per_minute is not None:
            self._taken[supplier] = self._taken.get(supplier, 0) + len(taken)
        if lane:
            self._lanes[supplier] = lane
        return cost

    def _allowed(self) -> list[str]:
        """Return the suppliers that may have a turn now, the one that has waited longest first."""
        if self._per_minute is None:
            return [*self._lanes]
        if (minute := int(time.monotonic() // 60)) != self._minute:
            self._minute, self._taken = minute, {}
        return [supplier for supplier in self._lanes if self._taken.get(supplier, 0) < self._per_minute]

    def _forget_old(self) -> None:
        at = time.monotonic()
        old = takewhile(lambda item: at - item[1][0] >= RING_AGAIN_AFTER_S, self._rung.items())
        for stream, _ in [*old]:
            del self._rung[stream]
