"""Results of a run, as a page of Markdown and as a chart."""

from pathlib import Path
from typing import Any

import msgspec

from bench.service import Measured


class Bar(msgspec.Struct, frozen=True):
    """A figure of one run, and its bar: a minimum, or a maximum if `is_most`."""

    name: str
    measured: float
    bar: float
    is_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured <= self.bar if self.is_most else self.measured >= self.bar

    @property
    def line(self) -> str:
        return f"{self.name}: {self.measured:,.2f} (bar {self.bar:,g}) {'ok' if self.is_met else 'MISSED'}"


class Results(msgspec.Struct, frozen=True):
    """All of a run: medians of its rounds."""

    machine: str
    measured_at: str
    rounds: int
    measured: dict[str, Measured]
    ratios: list[Bar]
    """Ratios of two rates of the same run."""
    costs: list[Bar]
    """CPU time, memory and latency of an account, in the unit of the name."""
    waits: list[Bar]
    """Waits of users in seconds, each with the longest allowed."""

    @property
    def is_met(self) -> bool:
        return all(bar.is_met for bar in (*self.ratios, *self.costs, *self.waits))


def write_results(results: Results, folder: Path) -> None:
    """Write `results.md`, and `results.png` if matplotlib is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.md").write_text(page(results))
    draw(results, folder / "results.png")


def page(results: Results) -> str:
    """Return the results as Markdown."""
    kinds = sorted({kind for measurement in results.measured.values() for kind in measurement.microseconds})
    lines = [
        "# Benchmark",
        "",
        f"{results.measured_at}, {results.machine}; medians of {results.rounds} rounds in which all took turns.",
        "",
        "| ratio | measured | bar | |",
        "|---|---|---|---|",
        *(f"| {r.name} | {r.measured:.2f} | {r.bar:.3g} | {'ok' if r.is_met else 'MISSED'} |" for r in results.ratios),
        "",
        "| cost | measured | bar | |",
        "|---|---|---|---|",
        *(f"| {c.name} | {c.measured:,.1f} | {c.bar:,.0f} | {'ok' if c.is_met else 'MISSED'} |" for c in results.costs),
        "",
        "Processor microseconds an account, by kind of process:",
        "",
        f"| what | accounts/s | {' | '.join(kinds)} |",
        "|---|---|" + "---|" * len(kinds),
        *(_row(name, measurement, kinds) for name, measurement in results.measured.items()),
        "",
        "| latency, open loop | p50 | p90 | p99 | max |",
        "|---|---|---|---|---|",
        *(_latencies(name, measurement) for name, measurement in results.measured.items() if measurement.latency_ms),
        "",
        "| wait | s | bar |",
        "|---|---|---|",
        *(f"| {w.name} | {w.measured:.3f} | {w.bar} |" for w in results.waits),
    ]
    return "\n".join(lines) + "\n"


def _row(name: str, measurement: Measured, kinds: list[str]) -> str:
    costs = (f"{measurement.microseconds[kind]:,.0f}" if kind in measurement.microseconds else "" for kind in kinds)
    return f"| {name} | {measurement.rate:,.0f} | {' | '.join(costs)} |"


def _latencies(name: str, measurement: Measured) -> str:
    times = (f"{measurement.latency_ms[at]:.1f} ms" for at in ("p50", "p90", "p99", "max"))
    return f"| {name} | {' | '.join(times)} |"


def draw(results: Results, file: Path) -> None:
    """Draw the rates as a bar chart, if matplotlib is installed."""
    names = [name for name, measurement in results.measured.items() if not measurement.latency_ms]
    try:
        import matplotlib as library
    except ModuleNotFoundError:  # only `make bench` installs it
        return
    library.use("Agg")
    from matplotlib import pyplot

    plot: Any = pyplot
    figure, axes = plot.subplots(figsize=(8.0, 0.42 * len(names) + 1.2))
    bars = axes.barh(names[::-1], [results.measured[name].rate for name in names[::-1]], color="#3b6ea5")
    axes.bar_label(bars, fmt="{:,.0f}", padding=3)
    axes.margins(x=0.12)
    axes.set_xlabel("accounts a second, medians of one run")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=110)
