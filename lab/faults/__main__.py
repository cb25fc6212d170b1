"""`make chaos SEED=… MINUTES=…`: inject faults into a service under load, in random order, and print a table.

Exit code 1 if an acknowledged account is lost, doubled or illegal, or a recovery takes too long. In runs of 20 minutes
or more, also if memory grows or the rate falls.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from random import Random

from lab.faults.disk import NotMountable, fill_the_disk
from lab.faults.faults import FAULTS, Fault
from lab.faults.steadiness import Watch, steadiness_findings
from lab.faults.world import World
from tests.support.folders import temporary_folder

PAUSE_S = 1.0


def rounds(random: Random, until: float) -> Iterator[Fault]:
    """Yield all faults in random order: each once, and then again until the time `until`."""
    yield from random.sample(FAULTS, len(FAULTS))
    while True:
        for fault in random.sample(FAULTS, len(FAULTS)):
            if time.monotonic() > until:
                return
            yield fault


def main() -> None:
    """Run the faults, check the results, and print them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    random = Random(options.seed)
    recoveries: defaultdict[str, list[float]] = defaultdict(list)
    late: list[str] = []
    with temporary_folder() as folder:
        world = World(folder / "data", random)
        try:
            until, watch = time.monotonic() + options.minutes * 60, Watch()
            for fault in rounds(random, until):
                time.sleep(random.uniform(0, PAUSE_S))  # at a random moment
                before = len(world.acknowledged())
                fault.inject(world)
                seconds = world.seconds_until_working(processed_within_s=fault.processed_within_s)
                recoveries[fault.name].append(seconds)
                watch.sample(world.pid, len(world.acknowledged()))
                if seconds > fault.recovery_s:
                    late.append(f"{fault.name}: {seconds:.1f} s, {fault.recovery_s:g} s are allowed")
                print(
                    f"{fault.name:<34} {seconds:6.1f} s  +{len(world.acknowledged()) - before} acknowledged", flush=True
                )
            world.come_to_rest()
            findings = world.findings()
        finally:
            world.close()
        try:
            of_disk, seconds = fill_the_disk(folder / "disk", random)
            recoveries["disk full"].append(seconds)
            findings.acknowledged += of_disk.acknowledged
            findings.lost += of_disk.lost
            findings.doubled += of_disk.doubled
            findings.illegal += of_disk.illegal
            findings.sentences += of_disk.sentences
        except NotMountable as reason:
            print(f"disk full: SKIPPED, {reason}")
    print("", *watch.lines(), f"\nseed {options.seed}", sep="\n")
    print(f"{'fault':<34} {'times':>5} {'p50 s':>7} {'max s':>7}")
    for name, seconds_each in recoveries.items():
        print(f"{name:<34} {len(seconds_each):>5} {statistics.median(seconds_each):>7.1f} {max(seconds_each):>7.1f}")
    print(
        f"faults {sum(map(len, recoveries.values()))}, acknowledged {findings.acknowledged}, lost {findings.lost}, "
        f"doubled {findings.doubled}, illegal {findings.illegal}, reverted {findings.reverted}"
    )
    late += steadiness_findings(watch.samples)
    for sentence in (*findings.sentences, *late):
        print(sentence)
    if late or not findings.is_whole:
        sys.exit(1)


if __name__ == "__main__":
    main()
