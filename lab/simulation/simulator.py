"""A deterministic simulation of imports: the pure core among a clock, a queue and a store that all misbehave.

Importers stage, repeat, cancel and retry. A relay sends messages; a queue delays, doubles, loses and reorders them.
Workers die at any step, or hang beyond their lease and then continue. The store loses answers, whether it has stored or
not. Every agent's clock is wrong by up to fifty seconds and jumps. Importers change what they have sent, turn dry runs
into creations and back, cancel, retry, and erase people. One seed is one history: a seed that fails is a regression
test.

Invariants are checked at every append, and again when the faults have ended and all work has come to rest. The first of
them: an outcome belongs to the content that the import was last staged with, and so does the platform's account.
"""

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec

from eventstore.aggregates.aggregate import Command, Event
from eventstore.aggregates.import_process import (
    IMPORT_PROCESS,
    CancelImport,
    CompleteImport,
    DryRunErrored,
    DryRunSucceeded,
    EraseSubject,
    FailImport,
    ImportErrored,
    ImportProcess,
    ImportProcessed,
    ImportRetried,
    ImportReverted,
    ImportStaged,
    ImportStarted,
    PostponeImport,
    RetryImport,
    RevertImport,
    StageImport,
    StartImport,
    SubjectErased,
)
from eventstore.errors import ImportInProgress, Refused

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
LEASE_S = 60.0
SWEEP_S = 1.0
LOST_AFTER_S = 2.0
RESEND_S = 10.0
MAX_ATTEMPTS = 5
MAX_OFFSET_S = 50.0
BATCH = 5

LEGAL = {
    "NEW": {"PENDING"},
    "PENDING": {"PENDING", "IN_PROGRESS", "CANCELLED", "ERRORED", "DRY_RUN_ERRORED"},
    "IN_PROGRESS": {"PENDING", "PROCESSED", "ERRORED", "DRY_RUN_SUCCEEDED", "DRY_RUN_ERRORED"},
    "ERRORED": {"PENDING", "CANCELLED"},
    "CANCELLED": {"PENDING", "CANCELLED"},
    "DRY_RUN_SUCCEEDED": {"PENDING", "CANCELLED"},
    "DRY_RUN_ERRORED": {"PENDING", "CANCELLED"},
    "PROCESSED": {"PROCESSED", "CANCELLED"},
}
"""States that may follow each state.

PENDING becomes ERRORED when the attempts are used up. Erasures and reverts cancel.
"""
OUTCOMES = (ImportProcessed, ImportErrored, DryRunSucceeded, DryRunErrored)


class Unavailable(Exception):
    """The store does not answer. It may have stored the events, or not."""


class Conflict(Exception):
    """Another agent has appended to the stream first."""


class InvariantBroken(AssertionError):
    """An invariant does not hold."""


class Faults(msgspec.Struct):
    """Probability of each fault, each time that it can happen."""

    torn_before: float = 0.03
    torn_after: float = 0.03
    lost: float = 0.05
    doubled: float = 0.10
    late: float = 0.20
    worker_dies: float = 0.04
    worker_hangs: float = 0.15
    clock_jumps: float = 0.05

    @classmethod
    def none(cls) -> "Faults":
        return cls(**dict.fromkeys(cls.__struct_fields__, 0.0))


class StartedImport(msgspec.Struct, frozen=True):
    """An import that a worker has started: the version of its start, its content, and whether it is a dry run."""

    stream: str
    start: int
    content: str
    is_dry_run: bool


class Account(msgspec.Struct, frozen=True):
    """A row of the platform: the account's number, and the content that it was made of; "" after an erasure."""

    number: str
    content: str


class Stored(msgspec.Struct):
    """A stream as the store has it."""

    events: list[Event]
    state: ImportProcess
    modified_s: float = 0.0
    lease_until: datetime = BEGIN


class Agent:
    """Agent with a wrong clock of its own."""

    def __init__(self, world: "Simulation") -> None:
        self._world = world
        self.offset_s = world.random.uniform(-MAX_OFFSET_S, MAX_OFFSET_S)

    def now(self) -> datetime:
        if self._world.happens(self._world.faults.clock_jumps):
            self.offset_s = self._world.random.uniform(-MAX_OFFSET_S, MAX_OFFSET_S)
        return BEGIN + timedelta(seconds=self._world.clock_s + self.offset_s)


class Simulation:
    """One history. `run` raises Broken, with the seed, when an invariant does not hold."""

    def __init__(
        self, seed: int, *, imports: int = 200, decide: Callable[..., Event | None] = IMPORT_PROCESS.decide
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.faults = Faults()
        self.clock_s = 0.0
        self.streams: dict[str, Stored] = {}
        self.log: list[str] = []
        self.accounts: dict[str, Account] = {}
        self.retired: set[str] = set()
        self.acknowledged: defaultdict[str, set[str]] = defaultdict(set)
        self.counts: Counter[str] = Counter()
        self.alive: set[int] = set()
        self.unfinished: dict[str, None] = {}
        self.importers_busy = imports
        self._decide = decide
        self._numbers = itertools.count(1)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._queue: list[tuple[float, int, list[str]]] = []
        self._relay_position = 0
        self._begin(imports)

    def run(self) -> Counter[str]:
        """Simulate the history, first with faults and then without. Return counts of what happened. Raises Broken."""
        self._work_until(self.clock_s + 600)
        self.faults = Faults.none()
        end_s = self.clock_s + 3_600
        while self.clock_s < end_s and (self.unfinished or self.importers_busy):
            self._work_until(self.clock_s + 10)
        self._check_end()
        return self.counts

    def happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.clock_s + delay_s, next(self._numbers), action))

    def load(self, stream: str) -> tuple[ImportProcess, int]:
        stored = self.streams.get(stream)
        return (stored.state, len(stored.events)) if stored else (ImportProcess(), 0)

    def execute(
        self,
        commands: dict[str, Command],
        at: datetime,
        accounts: dict[str, Account] | None = None,
        started: Sequence[StartedImport] = (),
    ) -> list[str]:
        """Decide the commands, and append the events in one transaction. Return the streams that got an event.

        With accounts, a refusal or a command without effect rolls back everything. `started` are the started imports of
        the worker that executes these commands. Raises Unavailable, Conflict, Refused.
        """
        appended = []
        for stream, command in commands.items():
            state, version = self.load(stream)
            try:
                event = self._decide(command, state, at)
            except Refused:
                if accounts or len(commands) == 1:
                    raise
                continue
            if event is not None:
                appended.append((stream, version, event))
            elif accounts:
                raise Conflict(stream)
        if self.happens(self.faults.torn_before):
            self.counts["torn before"] += 1
            raise Unavailable
        if any(self.load(stream)[1] != version for stream, version, _ in appended):
            raise Conflict
        self._commit([(stream, event) for stream, _, event in appended], accounts or {}, started)
        if self.happens(self.faults.torn_after):
            self.counts["torn after"] += 1
            raise Unavailable
        return [stream for stream, _, _ in appended]

    def _commit(
        self, events: Sequence[tuple[str, Event]], accounts: dict[str, Account], started: Sequence[StartedImport]
    ) -> None:
        processed = {started_import.stream: started_import.content for started_import in started}
        for stream, event in events:
            self._append(stream, event, processed.get(stream))
        for stream, account in accounts.items():
            self._expect(stream not in self.accounts, f"{stream} has two accounts")
            self._expect(account.number not in self.retired, f"{stream} has the number of a reverted account")
            self.accounts[stream] = account
        for stream, event in events:
            if isinstance(event, SubjectErased) and event.account_number:
                self.accounts[stream] = Account(event.account_number, "")
            if isinstance(event, ImportReverted):
                self.retired.add(self.accounts.pop(stream).number)
            self._check_account(stream)

    def enqueue(self, streams: list[str]) -> None:
        """Send a message, which may be lost, doubled or late."""
        if self.happens(self.faults.lost):
            self.counts["messages lost"] += 1
            return
        for _ in range(2 if self.happens(self.faults.doubled) else 1):
            delay_s = self.random.expovariate(1 / 30) if self.happens(self.faults.late) else self.random.random() / 10
            heapq.heappush(self._queue, (self.clock_s + delay_s, next(self._numbers), streams))

    def next_message(self) -> list[str] | None:
        """Return the next message that has arrived; None if there is none."""
        if self._queue and self._queue[0][0] <= self.clock_s:
            return heapq.heappop(self._queue)[2]
        return None

    def _check_account(self, stream: str) -> None:
        """Check that log and platform agree about an account: its existence, its number and its content."""
        state, account = self.streams[stream].state, self.accounts.get(stream)
        self._expect((state.status == "PROCESSED") == (account is not None), f"{stream}: log and platform disagree")
        if account is not None:
            self._expect(state.account_number == account.number, f"{stream} has another number")
            content = "" if state.is_erased or state.staged is None else state.staged.content_sha256
            self._expect(account.content == content, f"{stream} is made of {account.content}, staged was {content}")
            self._expect(not state.is_dry_run, f"{stream} was to be a dry run")

    def _append(self, stream: str, event: Event, processed: str | None) -> None:
        """Append an event. `processed` is the content that a worker has processed, None without a worker."""
        stored = self.streams.setdefault(stream, Stored([], ImportProcess()))
        state = IMPORT_PROCESS.evolve(stored.state, event)
        self._expect(state.status in LEGAL[stored.state.status], f"{stored.state.status} became {state.status}")
        self._expect(state.attempt <= MAX_ATTEMPTS, "more attempts than there may be")
        if isinstance(event, OUTCOMES) and processed is not None and stored.state.staged is not None:
            staged = stored.state.staged.content_sha256
            self._expect(processed == staged, f"{stream}: the outcome is that of {processed}, staged was {staged}")
        if stored.events and isinstance(stored.events[-1], ImportReverted):
            is_sent = isinstance(event, ImportStaged | SubjectErased)
            self._expect(is_sent, f"{stream} came back without being sent: {type(event).__name__}")
        stored.events.append(event)
        stored.state, stored.modified_s = state, self.clock_s
        if state.status in ("PENDING", "IN_PROGRESS"):
            self.unfinished[stream] = None
        else:
            self.unfinished.pop(stream, None)
        if isinstance(event, ImportStarted):
            stored.lease_until = event.lease_until
        if isinstance(event, ImportStaged | ImportRetried):
            self.log.append(stream)
        if isinstance(event, ImportProcessed):
            reverts = sum(isinstance(other, ImportReverted) for other in stored.events)
            times = sum(isinstance(other, ImportProcessed) for other in stored.events)
            self._expect(times == 1 + reverts, "an import was processed twice")
        self.counts[type(event).__name__] += 1

    def _begin(self, imports: int) -> None:
        for number in range(imports):
            importer = Importer(self, f"import/S/{number}")
            self.later(self.random.uniform(0, 300), importer.send)
        for _ in range(3):
            self.later(self.random.random(), Worker(self).fetch)
        relay = Relay(self)
        self.later(0, relay.follow)
        for _ in range(2):  # two sweepers at once, which must not matter
            self.later(self.random.random(), Sweeper(self).sweep)

    def _work_until(self, end_s: float) -> None:
        while self._agenda and self._agenda[0][0] <= end_s:
            self.clock_s, _, action = heapq.heappop(self._agenda)
            action()
        self.clock_s = end_s

    def _check_end(self) -> None:
        """Check that everything acknowledged is in the log, and that all work has ended."""
        for stream, digests in self.acknowledged.items():
            staged = {e.content_sha256 for e in self.streams[stream].events if isinstance(e, ImportStaged)}
            self._expect(digests <= staged, f"{stream} was acknowledged and is not in the log")
        for stream, stored in self.streams.items():
            self._expect(stored.state.status not in ("PENDING", "IN_PROGRESS"), f"{stream} never ends")
            self._check_account(stream)
        numbers = {account.number for account in self.accounts.values()}
        self._expect(len(numbers) == len(self.accounts), "a number was given twice")
        self.counts["imports"] = len(self.streams)
        self.counts["accounts"] = len(self.accounts)

    def _expect(self, holds: bool, claim: str) -> None:
        if not holds:
            raise InvariantBroken(f"seed {self.seed}, second {self.clock_s:.1f}: {claim}")


class Importer(Agent):
    """Sends an account, and repeats it until it is acknowledged.

    Sometimes it changes, cancels, retries, reverts or erases it.
    """

    def __init__(self, world: Simulation, stream: str) -> None:
        super().__init__(world)
        self._stream = stream
        self._content = 1
        self._is_dry_run = world.happens(0.1)
        self._changes_left = 3 if world.happens(0.5) else 0
        self._refusals_left = 20

    def send(self) -> None:
        world = self._world
        digest = f"{self._stream}#{self._content}"
        command = StageImport(
            payload_sha256=digest, content_sha256=digest, payload_bytes=1, is_dry_run=self._is_dry_run
        )
        try:
            world.execute({self._stream: command}, self.now())
        except (Unavailable, Conflict):
            world.later(world.random.uniform(0.1, 5), self.send)
            return
        except ImportInProgress:
            if self._refusals_left and self._changes_left:  # the guide says: send it again when the import has ended
                self._refusals_left -= 1
                world.later(world.random.uniform(1, 6), self.send)
            else:
                world.importers_busy -= 1
            return
        except Refused:
            world.importers_busy -= 1
            return
        world.acknowledged[self._stream].add(digest)
        if self._changes_left:
            self._changes_left -= 1
            then = world.random.choice((self.send, self._change, self._change, self._decide))
            world.later(world.random.expovariate(1 / 40), then)
        else:
            world.importers_busy -= 1

    def _change(self) -> None:
        self._content += 1
        self._is_dry_run = self._world.happens(0.3)
        self.send()

    def _decide(self) -> None:
        world = self._world
        command = world.random.choice(
            (
                CancelImport(reason="r"),
                RetryImport(reason="r"),
                EraseSubject(reason="r"),
                RevertImport(reason="r"),
                RevertImport(reason="r"),
            )
        )
        with suppress(Unavailable, Conflict, Refused):
            world.execute({self._stream: command}, self.now())
        if isinstance(command, CancelImport | RevertImport) and world.happens(0.7):
            world.later(world.random.expovariate(1 / 20), self._change)
        else:
            world.importers_busy -= 1


class Relay(Agent):
    """Sends messages for new events. Sometimes it forgets its position, and sends messages twice."""

    def follow(self) -> None:
        world = self._world
        if world.happens(world.faults.worker_dies):
            world._relay_position = max(0, world._relay_position - 10)
        while world._relay_position < len(world.log):
            world.enqueue(list(dict.fromkeys(world.log[world._relay_position : world._relay_position + BATCH])))
            world._relay_position += BATCH
        world._relay_position = len(world.log)
        world.later(0.5, self.follow)


class Sweeper(Agent):
    """Releases imports of dead and hanging workers, and sends messages again."""

    def __init__(self, world: Simulation) -> None:
        super().__init__(world)
        self._sent_at: dict[str, float] = {}

    def sweep(self) -> None:
        world, at = self._world, self.now()
        for stream in list(world.unfinished):
            stored = world.streams[stream]
            if stored.state.status == "IN_PROGRESS":
                self._postpone(stream, stored, at)
            elif self._is_waiting(stream, stored, at):
                self._sent_at[stream] = world.clock_s
                world.enqueue([stream])
        world.later(SWEEP_S, self.sweep)

    def _postpone(self, stream: str, stored: Stored, at: datetime) -> None:
        is_expired = stored.lease_until < at
        if is_expired or stored.state.worker not in self._world.alive:
            due_at = at + timedelta(seconds=5) if is_expired else at
            code = "lease_expired" if is_expired else "worker_lost"
            self._try({stream: PostponeImport(start=stored.state.start, code=code, due_at=due_at)})

    def _is_waiting(self, stream: str, stored: Stored, at: datetime) -> bool:
        """Return True if the import is due, has not changed a moment ago, and got no message a moment ago."""
        clock_s, due_at = self._world.clock_s, stored.state.due_at
        is_due = due_at is None or due_at <= at
        is_old = clock_s - stored.modified_s > LOST_AFTER_S
        return is_due and is_old and clock_s - self._sent_at.get(stream, -RESEND_S) >= RESEND_S

    def _try(self, commands: dict[str, Command]) -> None:
        try:
            self._world.execute(commands, self.now())
        except (Unavailable, Conflict, Refused):
            return


class Worker(Agent):
    """Takes messages. May die at any step and restart as another worker, or hang with an import.

    Only one thread hangs: another thread of the same worker, with the same number, continues.
    """

    def __init__(self, world: Simulation) -> None:
        super().__init__(world)
        self._id = 0
        self._come_back()

    def fetch(self) -> None:
        streams = self._world.next_message()
        if streams is None:
            self._world.later(0.1, self.fetch)
        elif not self._is_lost(lambda: None):
            self._start(streams)

    def _start(self, streams: list[str]) -> None:
        world, at = self._world, self.now()
        command = StartImport(worker=self._id, lease_until=at + timedelta(seconds=LEASE_S), max_attempts=MAX_ATTEMPTS)
        try:
            started_streams = world.execute(dict.fromkeys(streams, command), at)
        except (Unavailable, Conflict, Refused):
            world.later(0.1, self.fetch)
            return
        started = []
        for stream in started_streams:
            state = world.load(stream)[0]
            if state.status == "IN_PROGRESS" and state.staged is not None:
                started.append(StartedImport(stream, state.start, state.staged.content_sha256, state.is_dry_run))
        world.later(world.random.uniform(0.01, 1), lambda: self._finish(started))

    def _finish(self, started: list[StartedImport], *, is_late: bool = False) -> None:
        if not is_late and self._is_lost(lambda: self._finish(started, is_late=True)):
            return
        world, at = self._world, self.now()
        commands: dict[str, Command] = {}
        accounts: dict[str, Account] = {}
        for started_import in started:
            fate = world.random.random()
            if fate < 0.1:
                self._try_alone(started_import, FailImport(start=started_import.start, code="invalid", detail="No."))
            elif fate < 0.15:
                self._try_alone(
                    started_import,
                    PostponeImport(start=started_import.start, code="later", due_at=at + timedelta(seconds=3)),
                )
            else:
                number = "" if started_import.is_dry_run else f"A-{next(world._numbers)}"
                commands[started_import.stream] = CompleteImport(start=started_import.start, account_number=number)
                if number:
                    accounts[started_import.stream] = Account(number, started_import.content)
        try:
            if commands:
                world.execute(commands, at, accounts, started)
        except (Unavailable, Conflict, Refused):
            for started_import in started:  # one by one, so that a failure affects only its own import
                if started_import.stream in commands:
                    made = (
                        {started_import.stream: accounts[started_import.stream]}
                        if started_import.stream in accounts
                        else None
                    )
                    self._try_alone(started_import, commands[started_import.stream], made)
        if not is_late:
            world.later(0.05, self.fetch)

    def _try_alone(
        self, started_import: StartedImport, command: Command, accounts: dict[str, Account] | None = None
    ) -> None:
        try:
            self._world.execute({started_import.stream: command}, self.now(), accounts, [started_import])
        except (Unavailable, Conflict, Refused):
            return

    def _is_lost(self, then: Callable[[], Any]) -> bool:
        """Return True if this worker dies here, or hangs, perhaps beyond its lease, and later continues with `then`."""
        world = self._world
        if world.happens(world.faults.worker_dies):
            world.counts["workers died"] += 1
            world.alive.discard(self._id)
            self._come_back()
            world.later(world.random.uniform(0.1, 3), self.fetch)
            return True
        if world.happens(world.faults.worker_hangs):
            world.counts["workers hung"] += 1
            world.later(world.random.uniform(1, 3 * LEASE_S), then)
            world.later(0.1, self.fetch)
            return True
        return False

    def _come_back(self) -> None:
        self._id = next(self._world._numbers)
        self._world.alive.add(self._id)
