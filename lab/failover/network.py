"""Simulated machines: network namespaces that are connected to one switch, with cables that can be pulled.

They are in a mount, pid and network namespace of the run (`lab.failover.apart`), so they end with it and never touch
the real machine's network. A pulled cable drops packets silently: the port leaves its bridge.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

NETWORK = "10.77.0"
OBSERVER = f"{NETWORK}.1"
"""Address of the run itself, on the switch."""
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def ip(*words: str) -> None:
    """Run `ip` with these arguments. Raises CalledProcessError."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def mount_memory(folder: Path) -> None:
    """Mount a memory disk on the folder. It ends with the run's mount namespace."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)


class Machine:
    """A network namespace with one address."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.address = f"{NETWORK}.{number}"
        self.port = f"to-{name}"
        self._file = Path("/run/netns") / name

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Put this thread into the machine's network: sockets and programs of the block belong to the machine."""
        with self._file.open() as target, Path("/proc/thread-self/ns/net").open() as current:
            _enter(target.fileno())
            try:
                yield
            finally:
                _enter(current.fileno())

    def processes(self) -> list[psutil.Process]:
        """Return all processes that run on the machine."""
        namespace = self._file.stat().st_ino
        found = []
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.NoSuchProcess):
                if Path(f"/proc/{pid}/ns/net").stat().st_ino == namespace and pid != os.getpid():
                    found.append(psutil.Process(pid))
        return found

    def lose_power(self) -> None:
        """Kill all processes on the machine with SIGKILL."""
        processes = self.processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(processes, timeout=20)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """The switch: a bridge that connects all machines, and a second one for machines that are split off together."""

    def __init__(self) -> None:
        Path("/run/netns").mkdir(parents=True, exist_ok=True)
        mount_memory(Path("/run/netns"))
        ip("link", "set", "lo", "up")
        for bridge in ("whole", "apart"):
            ip("link", "add", bridge, "type", "bridge")
            ip("link", "set", bridge, "up")
        ip("address", "add", f"{OBSERVER}/24", "dev", "whole")
        self.machines: dict[str, Machine] = {}

    def machine(self, name: str, number: int) -> Machine:
        """Add a machine, and connect it."""
        machine = self.machines[name] = Machine(name, number)
        ip("netns", "add", name)
        ip("link", "add", machine.port, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", machine.port, "master", "whole", "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "address", "add", f"{machine.address}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        return machine

    def cut(self, machine: Machine) -> None:
        """Drop packets in both directions silently."""
        ip("link", "set", machine.port, "nomaster")

    def split(self, machines: Iterable[Machine]) -> None:
        """Separate these machines from all others. They still reach each other."""
        for machine in machines:
            ip("link", "set", machine.port, "master", "apart")

    def heal(self) -> None:
        """Connect all machines again."""
        for machine in self.machines.values():
            ip("link", "set", machine.port, "master", "whole")
