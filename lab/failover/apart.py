"""Run a module in mount, pid and network namespaces of its own, which end with it, however it ends."""

import os
import shutil
import signal
import subprocess
import sys

IN_NAMESPACES = "FAILOVER_IS_APART"
_UNSHARE = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]

NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--")
"""Prefix of a command that is to see another user than root, which Postgres refuses. Files still belong to root."""


class Unsupported(Exception):
    """The laboratory cannot run on this machine or as this user; the message is the reason."""


def enter_namespaces(module: str) -> None:
    """Start the module again in new namespaces, and return in a child process there. Raises Unsupported.

    The parent of that child waits for it, and ends with its exit code.
    """
    if IN_NAMESPACES not in os.environ:
        _refuse()
        os.execvpe(
            "unshare", [*_UNSHARE, sys.executable, "-m", module, *sys.argv[1:]], os.environ | {IN_NAMESPACES: "yes"}
        )
    child = os.fork()
    if child == 0:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:  # the first process of a pid namespace inherits every orphan
        ended, status = os.wait()
        if ended == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _refuse() -> None:
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Unsupported("network namespaces need root on Linux")
    for program in ("unshare", "ip", "mount"):
        if shutil.which(program) is None:
            raise Unsupported(f"the program {program} is missing (Debian: util-linux, iproute2, mount)")
    for probe in ((*NOBODY, "true"), ("ip", "link", "add", "whole", "type", "bridge")):
        result = subprocess.run([*_UNSHARE, *probe], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise Unsupported(f"namespaces of users and networks cannot be made: {result.stderr.strip()}")


def need_programs() -> None:
    """Install etcd and HAProxy from Debian's packages if they are missing. Raises Unsupported."""
    packages = {"etcd": "etcd-server", "haproxy": "haproxy"}
    missing = [package for program, package in packages.items() if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise Unsupported(f"{' and '.join(missing)} are missing, and there is no apt-get to install them")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", *words], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unsupported(f"{' and '.join(missing)} could not be installed: {done.stderr.strip()[-200:]}")
