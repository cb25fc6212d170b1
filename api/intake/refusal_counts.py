"""Count refusals by supplier, and append the counts to the log at most once a minute."""

from collections import Counter
from collections.abc import Iterable, Mapping

from api.intake.count_appends import CountAppends, batch_name
from eventstore.aggregates.aggregate import Command
from eventstore.aggregates.run import CountRefusals, refusals_stream_of
from eventstore.clock import now
from eventstore.log.ledger import Ledger
from schemas.base import Problem, problem_name
from schemas.reading.documented_paths import path_pattern

INTERVAL_S = 60.0
MAX_PLACES = 500
"""Names `code@path` per supplier and interval. Further names are counted together under OTHER."""
OTHER = "other"


def places_of(problems: Iterable[Problem]) -> set[str]:
    """Return the names under which the problems of a request are counted: `code@path`, without repetitions.

    A path has [] instead of the index of an item.
    """
    return {problem_name(problem.code, path_pattern(problem.attr)) for problem in problems}


def add_numbers(counts: Counter[str], numbers: Mapping[str, int]) -> None:
    """Add the numbers to the counts of names (`code@path`). Beyond MAX_PLACES names, new names count as OTHER."""
    for name, number in numbers.items():
        counts[name if name in counts or len(counts) < MAX_PLACES else OTHER] += number


class RefusalCounts(CountAppends):
    """Counts of refused requests in one api process. A crash loses the counts of the last minute."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger, self._drain_counts, interval_s=INTERVAL_S, name="refusals")
        self._counts: dict[str, Counter[str]] = {}
        self._since = now()

    def count(self, supplier: str, places: Iterable[str]) -> None:
        """Count each name (`code@path`) of a request's problems once."""
        self.add(supplier, dict.fromkeys(places, 1))

    def add(self, supplier: str, numbers: Mapping[str, int]) -> None:
        """Add the numbers to the counts of a supplier's names."""
        add_numbers(self._counts.setdefault(supplier, Counter()), numbers)

    async def _drain_counts(self) -> Mapping[str, Command]:
        counted, since = self._counts, self._since
        self._counts, self._since = {}, now()
        return {
            refusals_stream_of(supplier, batch_name()): CountRefusals(since=since, counts=dict(counts.most_common()))
            for supplier, counts in counted.items()
        }
