"""Fair queue: messages are filled from all suppliers in turn, so that no supplier waits for all streams of another.

The lane of a supplier is a queue in memory with a limited length. Further streams wait in the database, where the
sweeper finds them when the lane is shorter again.
"""

import time
from itertools import takewhile

import msgspec

from eventstore.log.payloads import MAX_OPEN_BYTES, in_batches

LANE = 2_000
"""Streams in memory for one supplier, if few suppliers wait."""
FEW = 100
"""Streams in memory for one supplier, if very many suppliers wait."""
ALL_LANES = 100_000
"""Streams in memory for all suppliers together. Beyond this number, a supplier's lane has at most FEW streams."""
ALONE = 20
"""Fixed cost of a message: the number of imports that a worker processes in the time that a message takes."""
RESEND_AFTER_S = 5.0
"""Pause before a stream that still waits gets another message [seconds], since the first message may be lost."""


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """A stream with work to do since the event at `position`. `is_alone`: the stream gets a separate message."""

    position: int
    payload_bytes: int = 0
    is_alone: bool = False


class FairQueue:
    """Streams that wait for a message of one queue, by supplier, and streams that were sent within RESEND_AFTER_S."""

    def __init__(self, per_minute: int | None = None) -> None:
        """`per_minute`: streams of one supplier in the messages of a minute [default: no limit]."""
        self._lanes: dict[str, dict[str, Waiting]] = {}
        self._number = 0
        self._sent: dict[str, tuple[float, int]] = {}
        """By stream: time of its message, and the position since which the stream had waited."""
        self._per_minute = per_minute
        self._minute = 0
        self._sent_per_minute: dict[str, int] = {}
        """Streams sent in this minute, by supplier."""
        self.cut: set[str] = set()
        """Suppliers whose full lane has refused a stream since the sweeper has last read all their waiting imports."""

    def __len__(self) -> int:
        return self._number

    @property
    def capacity(self) -> int:
        """Number of streams that a lane may hold at present."""
        share = ALL_LANES // (len(self._lanes) + 1) if self._number < ALL_LANES else 0
        return max(FEW, min(LANE, share))

    def full(self) -> list[str]:
        """Return the suppliers whose lanes are more than half full."""
        return [supplier for supplier, lane in self._lanes.items() if 2 * len(lane) > self.capacity]

    def add(self, supplier: str, stream: str, waiting: Waiting) -> bool:
        """Add a stream to its supplier's lane.

        Return False if the lane is full. A stream that was sent within RESEND_AFTER_S is added again only if it waits
        since a later event.
        """
        sent_at, position = self._sent.get(stream, (0.0, -1))
        if position >= waiting.position and time.monotonic() - sent_at < RESEND_AFTER_S:
            return True
        lane = self._lanes.setdefault(supplier, {})
        if stream not in lane:
            if len(lane) >= self.capacity:
                self.cut.add(supplier)
                return False
            self._number += 1
        lane[stream] = waiting
        return True

    def forget_sent(self) -> None:
        """Allow all streams to be added again at once, because their messages may be lost."""
        self._sent.clear()

    def take(self, limit: int) -> list[list[str]]:
        """Take streams from all lanes in turn, up to the cost `limit`, and return them as messages.

        A stream costs 1, or ALONE if it gets a separate message. Streams of a message are processed together.
        """
        shared: dict[str, int] = {}
        alone: list[list[str]] = []
        remaining = limit
        self._drop_old()
        lanes = self._allowed()
        while lanes and remaining > 0:
            share = max(1, remaining // len(lanes))
            for supplier in lanes[:remaining]:
                remaining -= self._take_share(supplier, share, shared, alone)
            lanes = self._allowed()
        return [*in_batches(shared, shared.__getitem__, MAX_OPEN_BYTES), *alone]

    def _take_share(self, supplier: str, share: int, shared: dict[str, int], alone: list[list[str]]) -> int:
        """Take a supplier's share, and return its cost. After that, it is the turn of the other suppliers."""
        lane = self._lanes.pop(supplier)
        if self._per_minute is not None:
            share = min(share, self._per_minute - self._sent_per_minute.get(supplier, 0))
        cost = 0
        streams = []
        for stream, waiting in lane.items():
            if cost >= share:
                break
            streams.append(stream)
            if waiting.is_alone:
                alone.append([stream])
            else:
                shared[stream] = waiting.payload_bytes
            cost += ALONE if waiting.is_alone else 1
        for stream in streams:
            self._sent.pop(stream, None)
            self._sent[stream] = time.monotonic(), lane.pop(stream).position
        self._number -= len(streams)
        if self._per_minute is not None:
            self._sent_per_minute[supplier] = self._sent_per_minute.get(supplier, 0) + len(streams)
        if lane:
            self._lanes[supplier] = lane
        return cost

    def _allowed(self) -> list[str]:
        """Return the suppliers below their limit per minute. The supplier that has waited longest is first."""
        if self._per_minute is None:
            return [*self._lanes]
        if (minute := int(time.monotonic() // 60)) != self._minute:
            self._minute, self._sent_per_minute = minute, {}
        return [supplier for supplier in self._lanes if self._sent_per_minute.get(supplier, 0) < self._per_minute]

    def _drop_old(self) -> None:
        at = time.monotonic()
        old = takewhile(lambda item: at - item[1][0] >= RESEND_AFTER_S, self._sent.items())
        for stream, _ in [*old]:
            del self._sent[stream]
