"""Fault: the disk of a service is full. The service runs on a small memory disk, which not every user may mount."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from lab.faults.account import Findings
from lab.faults.world import World
from tests.support.running import wait_for

SIZE_MB = 1_400
"""Size of the disk: room for as much write-ahead log as Postgres may keep, and for its tables."""
FULL_S = 6.0


class NotMountable(Exception):
    """This user may not mount a memory disk."""


@contextlib.contextmanager
def small_disk(folder: Path, *, size_mb: int = SIZE_MB) -> Iterator[Path]:
    """Mount a memory disk on a new folder for the block. Raises NotMountable."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=0711", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        folder.rmdir()
        raise NotMountable(mounted.stderr.decode().strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def fill(file: Path) -> Path:
    """Write a file that takes all the space that is left, and return it."""
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as ballast:
        while ballast.write(bytes(4_096)):
            pass
    return file


def fill_the_disk(folder: Path, random: Random) -> tuple[Findings, float]:
    """Fill the disk under load, and free it. Return the findings, and the seconds until the service works again."""
    with small_disk(folder) as disk:
        world = World(disk, random)
        try:
            time.sleep(3)
            ballast = fill(disk / "ballast")
            before = world.load.refused
            time.sleep(FULL_S)
            wait_for(lambda: world.load.refused > before, "an account is refused")
            ballast.unlink()
            seconds = world.seconds_until_working()
            world.come_to_rest()
            return world.findings(), seconds
        finally:
            world.close()
