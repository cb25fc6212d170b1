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
from lab.mutation.trying import Trial, pytest_main, try_anew

MAY_SURVIVE = 0.05
NOTICED = ("killed", "timeout")
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
    parts = [(group, mutants_of(these)) for group, these in drafts]
    if options.list:
        for mutant in (mutant for _, mutants in parts for mutant in mutants):
            print(f"{mutant.file}:{mutant.line} {mutant.change}")
        return 0
    results: list[tuple[Mutant, Ended]] = []
    for group, mutants in parts:
        if mutants:
            results += _tried(group, mutants, options.workers)
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


def _tried(group: Group, mutants: list[Mutant], workers: int) -> list[tuple[Mutant, Ended]]:
    """Try the mutants in child processes, since this process must not import the project. Return how each ended."""
    ended: dict[int, Ended] = {}
    numbered = dict(enumerate(mutants))
    loaded: list[str] = []
    again: list[int] = []

    def take(said: dict[str, Any]) -> None:
        if "loaded" in said:
            loaded.extend(said["loaded"])
            again.extend(said["again"])
        else:
            ended[said["number"]] = Ended(said["outcome"], said["by"])
            _progress(numbered[said["number"]], ended[said["number"]], len(ended), len(mutants))

    _apart(lambda tell: _exchanged(group, numbered, workers, tell), take)
    graph = imports() if again else None
    for file in sorted({numbered[number].file for number in again}):
        known = unchanged(loaded, file, graph)
        these = {number: numbered[number] for number in again if numbered[number].file == file}
        _apart(partial(_anew, group, these, workers, known), take)
    return [(mutant, ended.get(number, Ended("not run", ""))) for number, mutant in numbered.items()]


def _exchanged(group: Group, mutants: dict[int, Mutant], workers: int, tell: Any) -> None:
    trial = Trial(mutants, workers, lambda number, how: tell({"number": number, "outcome": how.outcome, "by": how.by}))
    if pytest_main(group.tests, trial) not in (0, 5):
        sys.exit("These tests do not pass without a change: nothing can be said.")
    tell({"loaded": sorted(sys.modules), "again": trial.again})


def _anew(group: Group, mutants: dict[int, Mutant], workers: int, known: list[str], tell: Any) -> None:
    """Try mutants that must be imported. `known` are modules that no mutant changes: the parent imports them once."""
    for name in known:
        with suppress(ImportError):
            importlib.import_module(name)
    try_anew(mutants, group.tests, workers, lambda number, how: tell({"number": number, **vars(how)}))


def _apart(run: Any, take: Any) -> None:
    """Call `run` in a forked process, and pass each message that it sends to `take`. Its output goes to a file."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = CRASHED
        try:
            os.close(reading)
            with open(".mutants.log", "ab", buffering=0) as log, os.fdopen(writing, "w", buffering=1) as pipe:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                run(lambda said: print(json.dumps(said), file=pipe))
                code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        for line in pipe:
            take(json.loads(line))
    if os.waitpid(pid, 0)[1]:
        sys.exit("Mutants cannot be tried. The end of .mutants.log says why.")


def _progress(mutant: Mutant, how: Ended, number: int, of: int) -> None:
    if how.outcome not in NOTICED:
        print(f"{mutant.file}:{mutant.line} {how.outcome}\n    {mutant.change}", flush=True)
    elif number % 50 == 0:
        print(f"{number} of {of}", flush=True)


def _report(results: list[tuple[Mutant, Ended]], seconds: float, options: argparse.Namespace) -> int:
    """Print a table by file, and the new survivors. Return the exit code."""
    reasons = accepted()
    left = [mutant for mutant, how in results if _kind(how) == "survived"]
    new = [mutant for mutant in left if mutant.change not in reasons.get(mutant.file, ())]
    print("\n| file | changes | noticed | survived | not run |\n|---|---|---|---|---|")
    rows = Counter((mutant.file, _kind(how)) for mutant, how in results)
    for file in sorted({file for file, _ in rows}):
        _row(file, {kind: rows[file, kind] for kind in ("noticed", "survived", "not run")})
    totals = {kind: sum(n for (_, k), n in rows.items() if k == kind) for kind in ("noticed", "survived", "not run")}
    _row("together", totals)
    share = totals["survived"] / max(1, totals["noticed"] + totals["survived"])
    print(f"\n{share:.1%} survived, in {seconds / 60:.0f} minutes; {len(new)} of them without a reason.")
    for mutant in new:
        print(f"{mutant.file}:{mutant.line}\n    {json.dumps(mutant.change, ensure_ascii=False)},")
    if not options.sample and ":" not in options.only:
        _say_obsolete(results, left, reasons)
    is_too_much = share > MAY_SURVIVE and not options.only
    return 1 if new or is_too_much or totals["not run"] else 0


def _kind(how: Ended) -> str:
    return "noticed" if how.outcome in NOTICED else "not run" if how.outcome in NOT_RUN else "survived"


def _row(name: str, counts: dict[str, int]) -> None:
    print(f"| {name} | {sum(counts.values())} | {counts['noticed']} | {counts['survived']} | {counts['not run']} |")


def _say_obsolete(results: list[tuple[Mutant, Ended]], left: list[Mutant], reasons: dict[str, set[str]]) -> None:
    """Print the accepted changes that a test notices now, or that do not exist any more."""
    tried = {mutant.file for mutant, _ in results}
    survivors = {(mutant.file, mutant.change) for mutant in left}
    for file, changes in reasons.items():
        for change in sorted(changes if file in tried else ()):
            if (file, change) not in survivors:
                print(f"accepted, but does not survive any more: {file} {change}")


if __name__ == "__main__":
    Path(".mutants.log").unlink(missing_ok=True)
    sys.exit(main())
