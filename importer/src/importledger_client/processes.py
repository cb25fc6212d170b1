"""Processes that help this one: they neither react to Ctrl-C nor outlive it."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor


def helpers(count: int) -> ProcessPoolExecutor:
    """Return a pool of processes that end with this process, also if it is killed."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin)


def _begin() -> None:
    """Ignore Ctrl-C, after which the parent process ends this one, and end when the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
