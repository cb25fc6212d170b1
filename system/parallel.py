"""Pools of processes that end with this one, even if it is killed."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from system.interpreter import tune_interpreter

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor


@contextmanager
def processes(count: int) -> "Iterator[ProcessPoolExecutor]":
    """Run a pool of `count` processes for the block. Tasks that have not begun at its end are cancelled.

    The processes are forked and share memory: call this before threads start. Each opens its own connections. Only
    this process handles an interrupt from the keyboard.
    """
    import multiprocessing  # imported here: the library is large, and few roles use it
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, mp_context=context, initializer=belong_to, initargs=(os.getpid(),)) as pool:
        with warnings.catch_warnings():  # threads of tests share nothing with the pool
            warnings.simplefilter("ignore", DeprecationWarning)
            pool.submit(os.getpid)  # the first call starts all processes
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def spawned(count: int, begin: Callable[..., None], arguments: tuple[Any, ...]) -> "ProcessPoolExecutor":
    """Return a pool of `count` spawned processes, which may start while threads run.

    Each process calls `begin` first.
    """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, mp_context=context, initializer=begin, initargs=arguments)


def belong_to(parent: int) -> None:
    """Set up a child that ends with its parent and ignores interrupts from the keyboard."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tune_interpreter()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent dies: a killed parent cannot signal its children."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
