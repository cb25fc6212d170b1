"""Processes that work for this one, and end with it, however it ends."""

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
    """A pool of so many processes; work that has not begun when the block ends is left undone.

    Forked, so that they share what they have in common: call this before there are threads. Each opens connections
    of its own. An interrupt from the keyboard is handled by this process alone.
    """
    import multiprocessing  # every role knows how to share work out, and few do
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(count, mp_context=context, initializer=belong_to, initargs=(os.getpid(),)) as pool:
        with warnings.catch_warnings():  # there are threads in tests, which share nothing with what is done here
            warnings.simplefilter("ignore", DeprecationWarning)
            pool.submit(os.getpid)  # the first call makes them all
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def spawned(count: int, begin: Callable[..., None], arguments: tuple[Any, ...]) -> "ProcessPoolExecutor":
    """A pool of so many processes that share nothing with this one, where threads run. Each calls `begin` first."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, mp_context=context, initializer=begin, initargs=arguments)


def belong_to(parent: int) -> None:
    """Work for this process, and end with it. It alone handles interrupts from the keyboard."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tune_interpreter()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent dies: a parent that is killed cannot tell its children."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
