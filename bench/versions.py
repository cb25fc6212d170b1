"""Compare the cost of an account in another version of this repository and in this one, at the same time.

Each version has a service of its own, with a Postgres of its own. Both process the same number of accounts at the same
time, on the same processors. Other load on the machine affects both, so ratios of CPU time vary little from round to
round. The speed of one version alone is not measured.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import msgspec

Costs = Mapping[str, float]
"""Processor microseconds an account, by kind of process."""

ROOT = Path(__file__).parents[1]
WARM_UP = 2_000
GENERATOR = "generator"
"""Kind of the processes that load the service."""
_READY = "ready"


def compare(ref: str, rounds: int, accounts: int) -> str:
    """Measure the version `ref` and this one, and return a table of both."""
    with ExitStack() as stack:
        reference_root = stack.enter_context(checked_out(ref))
        services = [stack.enter_context(_service(root, accounts)) for root in (reference_root, ROOT)]
        return table(ref, [_measure_round(services) for _ in range(rounds)])


@contextmanager
def checked_out(ref: str) -> Iterator[Path]:
    """Check out a version to a temporary folder for the block. Ends the program if there is no such version."""
    with tempfile.TemporaryDirectory(prefix="importledger-version-") as folder:
        if _git("cat-file", "-e", f"{ref}^{{commit}}") != 0:
            sys.exit(f"There is no commit {ref} in this repository.")
        if _git("worktree", "add", "--detach", "--quiet", folder, ref) != 0:
            sys.exit("The version could not be checked out: see the error above.")
        try:
            yield Path(folder)
        finally:
            _git("worktree", "remove", "--force", folder)


def _git(*arguments: str) -> int:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=False).returncode  # noqa: S607


@contextmanager
def _service(root: Path, accounts: int) -> Iterator["subprocess.Popen[str]"]:
    """Run a process that measures the code in this folder each time that it gets a line on standard input."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{_MEASURING}"]
    command += [str(accounts), str(WARM_UP)]
    environment = os.environ | {"PYTHONPATH": str(root)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=root, env=environment, stdin=pipe, stdout=pipe, text=True)
    try:
        _read_result(process)
        yield process
    finally:
        process.communicate()


_MEASURING = f"""
import tempfile
from pathlib import Path
import msgspec
from bench.service import Bench

accounts, warm_up = map(int, sys.argv[1:])
with tempfile.TemporaryDirectory(prefix="importledger-bench-", ignore_cleanup_errors=True) as folder:
    bench = Bench(Path(folder), 2.0)
    try:
        bench.processed(warm_up)
        print("{_READY}", flush=True)
        for line in sys.stdin:
            print("{_READY}" + msgspec.json.encode(bench.processed(accounts).microseconds).decode(), flush=True)
    finally:
        bench.close()
"""
"""Program of the measuring process. It imports the modules of the measured version, which may differ from these."""


def _measure_round(services: Sequence["subprocess.Popen[str]"]) -> list[Costs]:
    for service in services:
        assert service.stdin is not None
        service.stdin.write("\n")
        service.stdin.flush()
    return [msgspec.json.decode(_read_result(service), type=dict[str, float]) for service in services]


def _read_result(process: "subprocess.Popen[str]") -> str:
    """Return the process's next line after the mark _READY. Raises RuntimeError if the process has ended."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(_READY):
            return line.removeprefix(_READY)
    raise RuntimeError("the process of a version has ended: see its output above")


def table(ref: str, rounds: Sequence[Sequence[Costs]]) -> str:
    """Return a table with a row for each kind of process, and one for the whole service: medians and ratios. Pure.

    A kind that a version does not have counts as 0.
    """
    lines = [f"| processor µs an account | {ref} | here | ratio, median | from | to |", "|---|---|---|---|---|---|"]
    kinds = dict.fromkeys(kind for pair in rounds for costs in pair for kind in costs)
    service = [kind for kind in kinds if kind != GENERATOR]
    for name, parts in {**{kind: [kind] for kind in kinds}, "service": service}.items():
        pairs = [tuple(sum(costs.get(kind, 0.0) for kind in parts) for costs in pair) for pair in rounds]
        ratios = [current / reference for reference, current in pairs if reference]
        if not ratios:
            continue
        reference, current = (median(column) for column in zip(*pairs, strict=True))
        figures = f"{median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f}"
        lines.append(f"| {name} | {reference:,.0f} | {current:,.0f} | {figures} |")
    return "\n".join(lines)
