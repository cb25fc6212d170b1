"""`make mutants`: change the pure core in thousands of places, one at a time, and check that a test fails.

Exit code 1 if a change survives that is not among the accepted ones, or if more than 5 % of all survive.
`ONLY=market/periods.py` selects files, a folder or one function (`market/periods.py:ordered`); `SAMPLE=200 SEED=1`
selects changes at random.
"""

import argparse
import importlib
import json
import os
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from lab.mutation.children import CRASHED, Ended
from lab.mutation.mutant import Mutant
from lab.mutation.mutants import Draft, drafts_of, mutants_of
from lab.mutation.preloading import imports, unchanged
from lab.mutation.settings import Group, accepted, groups
from lab.mutation.trying import Trial, pytest_main, run_imported

MAY_SURVIVE = 0.05
DETECTED = ("killed", "timeout")
NOT_RUN = ("not run", f"failed with {CRASHED}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--only", default="", help="files, a folder, or one function: market/periods.py:ordered")
    parser.add_argument("--sample", type=int, default=0, help="try so many changes of all, by chance")
    parser.add_argument("--seed", type=int, default=1, help="which ones chance takes")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--list", action="store_true", help="show the changes, and try none")
    options = parser.parse_args()
    began = time.monotonic()
    drafts = _sampled([(group, _drafts(group, options.only)) for group in groups()], options.sample, options.seed)
    parts = [(group, mutants_of(mutants_of_file)) for group, mutants_of_file in drafts]
    if options.list:
        for mutant in (mutant for _, mutants in parts for mutant in mutants):
            print(f"{mutant.file}:{mutant.line} {mutant.change}")
        return 0
    results: list[tuple[Mutant, Ended]] = []
    for group, mutants in parts:
        if mutants:
            results += _run_mutants(group, mutants, options.workers)
    return _report(results, time.monotonic() - began, options)


def _drafts(group: Group, only: str) -> list[Draft]:
    path, _, function = only.partition(":")
    files = [file for file in group.files if file.startswith(path)]
    return [draft for file in files for draft in drafts_of(file) if not function or function in draft.function]


def _sampled(parts: list[tuple[Group, list[Draft]]], number: int, seed: int) -> list[tuple[Group, list[Draft]]]:
    every = [draft for _, drafts in parts for draft in drafts]
    if not 0 < number < len(every):
        return parts
    chosen = set(map(id, random.Random(seed).sample(every, number)))
    return [(group, [draft for draft in drafts if id(draft) in chosen]) for group, drafts in parts]


def _run_mutants(group: Group, mutants: list[Mutant], workers: int) -> list[tuple[Mutant, Ended]]:
    """Try the mutants in child processes, since this process must not import the project. Return how each ended."""
    ended: dict[int, Ended] = {}
    numbered = dict(enumerate(mutants))
    loaded: list[str] = []
    to_import: list[int] = []

    def receive(message: dict[str, Any]) -> None:
        if "loaded" in message:
            loaded.extend(message["loaded"])
            to_import.extend(message["to_import"])
        else:
            ended[message["number"]] = Ended(message["outcome"], message["by"])
            _progress(numbered[message["number"]], ended[message["number"]], len(ended), len(mutants))

    _in_child(lambda report: _run_exchanged(group, numbered, workers, report), receive)
    graph = imports() if to_import else None
    for file in sorted({numbered[number].file for number in to_import}):
        known = unchanged(loaded, file, graph)
        mutants_of_file = {number: numbered[number] for number in to_import if numbered[number].file == file}
        _in_child(partial(_run_imported, group, mutants_of_file, workers, known), receive)
    return [(mutant, ended.get(number, Ended("not run", ""))) for number, mutant in numbered.items()]


def _run_exchanged(group: Group, mutants: dict[int, Mutant], workers: int, report: Any) -> None:
    trial = Trial(
        mutants, workers, lambda number, ended: report({"number": number, "outcome": ended.outcome, "by": ended.by})
    )
    if pytest_main(group.tests, trial) not in (0, 5):
        sys.exit("These tests do not pass without a change: nothing can be said.")
    report({"loaded": sorted(sys.modules), "to_import": trial.to_import})


def _run_imported(group: Group, mutants: dict[int, Mutant], workers: int, known: list[str], report: Any) -> None:
    """Try mutants that must be imported. `known` are modules that no mutant changes: the parent imports them once."""
    for name in known:
        with suppress(ImportError):
            importlib.import_module(name)
    run_imported(mutants, group.tests, workers, lambda number, ended: report({"number": number, **vars(ended)}))


def _in_child(run: Any, receive: Any) -> None:
    """Call `run` in a forked process, and pass each message that it sends to `receive`. Its output goes to a file."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = CRASHED
        try:
            os.close(reading)
            with open(".mutants.log", "ab", buffering=0) as log, os.fdopen(writing, "w", buffering=1) as pipe:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                run(lambda message: print(json.dumps(message), file=pipe))
                code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        for line in pipe:
            receive(json.loads(line))
    if os.waitpid(pid, 0)[1]:
        sys.exit("Mutants cannot be tried. The end of .mutants.log says why.")


def _progress(mutant: Mutant, ended: Ended, number: int, of: int) -> None:
    if ended.outcome not in DETECTED:
        print(f"{mutant.file}:{mutant.line} {ended.outcome}\n    {mutant.change}", flush=True)
    elif number % 50 == 0:
        print(f"{number} of {of}", flush=True)


def _report(results: list[tuple[Mutant, Ended]], seconds: float, options: argparse.Namespace) -> int:
    """Print a table by file, and the new survivors. Return the exit code."""
    reasons = accepted()
    survivors = [mutant for mutant, ended in results if _kind(ended) == "survived"]
    new = [mutant for mutant in survivors if mutant.change not in reasons.get(mutant.file, ())]
    print("\n| file | changes | detected | survived | not run |\n|---|---|---|---|---|")
    rows = Counter((mutant.file, _kind(ended)) for mutant, ended in results)
    for file in sorted({file for file, _ in rows}):
        _row(file, {kind: rows[file, kind] for kind in ("detected", "survived", "not run")})
    totals = {kind: sum(n for (_, k), n in rows.items() if k == kind) for kind in ("detected", "survived", "not run")}
    _row("together", totals)
    share = totals["survived"] / max(1, totals["detected"] + totals["survived"])
    print(f"\n{share:.1%} survived, in {seconds / 60:.0f} minutes; {len(new)} of them without a reason.")
    for mutant in new:
        print(f"{mutant.file}:{mutant.line}\n    {json.dumps(mutant.change, ensure_ascii=False)},")
    if not options.sample and ":" not in options.only:
        _print_obsolete(results, survivors, reasons)
    is_too_much = share > MAY_SURVIVE and not options.only
    return 1 if new or is_too_much or totals["not run"] else 0


def _kind(ended: Ended) -> str:
    return "detected" if ended.outcome in DETECTED else "not run" if ended.outcome in NOT_RUN else "survived"


def _row(name: str, counts: dict[str, int]) -> None:
    print(f"| {name} | {sum(counts.values())} | {counts['detected']} | {counts['survived']} | {counts['not run']} |")


def _print_obsolete(results: list[tuple[Mutant, Ended]], survivors: list[Mutant], reasons: dict[str, set[str]]) -> None:
    """Print the accepted changes that a test detects now, or that do not exist any more."""
    files = {mutant.file for mutant, _ in results}
    surviving = {(mutant.file, mutant.change) for mutant in survivors}
    for file, changes in reasons.items():
        for change in sorted(changes if file in files else ()):
            if (file, change) not in surviving:
                print(f"accepted, but does not survive any more: {file} {change}")


if __name__ == "__main__":
    Path(".mutants.log").unlink(missing_ok=True)
    sys.exit(main())
