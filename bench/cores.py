"""What a machine of N cores does: everything on one core, on two, and so on, with all that loads it.

    python -m bench.cores

Each number of cores has a service of its own, started as `up` starts it on such a machine; they are measured in turns.
What Postgres' connections wait for is looked at while accounts are brought to PROCESSED. Figures go to `bench/results`,
the chart to `docs/`, where a page shows it.
"""

import argparse
import json
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from bench.results import axes_of, save
from bench.service import Bench, Measured, median
from bench.usage import processor_model

RESULTS = Path(__file__).parent / "results"
CHART = Path(__file__).parents[1] / "docs" / "cores.png"
LOOK_EVERY_S = 0.02
WHAT = ("create, workers running", "create to PROCESSED", "validate")
ON_PROCESSOR = "on a processor, or waiting for one"
_SELECT_WAITS = """
SELECT coalesce(wait_event_type || ': ' || wait_event, %s)
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()
"""


class OnCores(msgspec.Struct):
    """What so many cores do, and how often connections were seen to wait for what while accounts were processed."""

    cores: int
    measured: dict[str, Measured]
    waits: dict[str, int]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench CORES=1 ARGS=")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement")
    parser.add_argument("--seconds", type=float, default=3.0, help="of load in each round")
    parser.add_argument("--accounts", type=int, default=10_000, help="to bring to PROCESSED in each round")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where JSON and Markdown go")
    parser.add_argument("--chart", type=Path, default=CHART, help="which file is the chart")
    arguments = parser.parse_args()
    told = measure(arguments.rounds, arguments.seconds, arguments.accounts)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "cores.json").write_text(json.dumps(msgspec.to_builtins(told), indent=1) + "\n")
    (arguments.results / "cores.md").write_text(page(told, arguments.rounds))
    draw(told, arguments.chart)
    print(page(told, arguments.rounds))


def measure(rounds: int, seconds: float, accounts: int) -> list[OnCores]:
    """The medians for each number of cores that there are."""
    numbers = range(1, len(os.sched_getaffinity(0)) + 1)
    waits: dict[int, Counter[str]] = {number: Counter() for number in numbers}
    turns: dict[int, list[dict[str, Measured]]] = {number: [] for number in numbers}
    with ExitStack() as stack:
        benches = {}
        for number in numbers:
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True)
            )
            with on_cores(number):
                benches[number] = Bench(Path(folder), seconds)
            stack.callback(benches[number].close)
        for turn in range(rounds):
            for number in numbers if turn % 2 == 0 else reversed(numbers):
                with on_cores(number):
                    turns[number].append(_turn(benches[number], accounts, waits[number]))
    return [
        OnCores(number, {name: median([one[name] for one in turns[number]]) for name in WHAT}, dict(waits[number]))
        for number in numbers
    ]


def _turn(bench: Bench, accounts: int, waits: Counter[str]) -> dict[str, Measured]:
    creates = bench.creates_among_workers()
    with waits_watched(bench.connections.admin_url, waits):
        processed = bench.processed(accounts)
    return dict(zip(WHAT, (creates, processed, bench.validations_shared()), strict=True))


@contextmanager
def on_cores(number: int) -> Iterator[None]:
    """Whatever is started within uses so many of this process's cores, and knows of no others."""
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(former)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)


@contextmanager
def waits_watched(admin_url: str, seen: Counter[str]) -> Iterator[None]:
    """Look again and again at what active connections wait for, and count it."""
    stop = threading.Event()

    def watch() -> None:
        with psycopg.connect(admin_url, autocommit=True) as connection:
            while not stop.wait(LOOK_EVERY_S):
                seen.update(name for (name,) in connection.execute(_SELECT_WAITS, (ON_PROCESSOR,)))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        stop.set()
        watching.join()


def page(told: list[OnCores], rounds: int) -> str:
    """The figures as Markdown. Pure but for the processor's name."""
    kinds = sorted({kind for one in told for kind in one.measured[WHAT[1]].microseconds})
    lines = [
        "# What N cores do",
        "",
        f"{processor_model()}; medians of {rounds} rounds in which all took turns. The load generator has no core of",
        "its own.",
        "",
        f"| cores | {' | '.join(WHAT)} |",
        "|---|" + "---|" * len(WHAT),
        *(f"| {one.cores} | {' | '.join(f'{one.measured[name].rate:,.0f}/s' for name in WHAT)} |" for one in told),
        "",
        "Processor microseconds an account, create to PROCESSED:",
        "",
        f"| cores | {' | '.join(kinds)} |",
        "|---|" + "---|" * len(kinds),
    ]
    for one in told:
        used = one.measured[WHAT[1]].microseconds
        lines.append(f"| {one.cores} | {' | '.join(f'{used.get(kind, 0):,.0f}' for kind in kinds)} |")
    lines += [
        "",
        "What active connections of Postgres wait for meanwhile:",
        "",
        "| cores | what | share |",
        "|---|---|---|",
    ]
    for one in told:
        lines += [f"| {one.cores} | {name} | {share:.0%} |" for name, share in _shares(one.waits)]
    return "\n".join(lines) + "\n"


def _shares(waits: Mapping[str, int], most: int = 6) -> list[tuple[str, float]]:
    """The most frequent ones, the largest first."""
    total = sum(waits.values()) or 1
    return [(name, number / total) for name, number in Counter(waits).most_common(most)]


def draw(told: list[OnCores], file: Path) -> None:
    """Rates by cores, where an account's processor time goes, and what connections wait for."""
    made = axes_of(3, width=12.0, height=3.6)
    if made is None:
        return
    figure, (rates, costs, waits) = made
    cores = [one.cores for one in told]
    for name in WHAT:
        rates.plot(cores, [one.measured[name].rate for one in told], marker="o", label=name)
    rates.set(xlabel="cores", ylabel="accounts a second", xticks=cores, ylim=(0, None))
    rates.legend(fontsize=7)
    below = [0.0] * len(told)
    for kind in sorted(told[-1].measured[WHAT[1]].microseconds):
        used = [one.measured[WHAT[1]].microseconds.get(kind, 0.0) for one in told]
        costs.bar([str(number) for number in cores], used, bottom=below, label=kind)
        below = [low + more for low, more in zip(below, used, strict=True)]
    costs.set(xlabel="cores", ylabel="processor µs an account, to PROCESSED")
    costs.legend(fontsize=7)
    shares = _shares(told[-1].waits)[::-1]
    shown: Any = waits.barh([name for name, _ in shares], [100 * share for _, share in shares], color="#3b6ea5")
    waits.bar_label(shown, fmt="{:.0f} %", padding=3)
    waits.set(xlabel=f"active connections, % ({cores[-1]} cores)")
    waits.margins(x=0.15)
    waits.tick_params(axis="y", labelsize=7)
    save(figure, file)


if __name__ == "__main__":
    main()
