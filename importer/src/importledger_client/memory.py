"""Memory of a long push: freed memory is returned to the system instead of staying in the heaps of many threads."""

import contextlib
import ctypes

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""Options of `mallopt`, as numbered in glibc's malloc.h."""
_ARENAS = 2
_LARGE_BYTES = 256 * 1024


def keep_memory_flat() -> None:
    """Make glibc allocate large objects outside of its heaps.

    Without this, memory grows with the length of a book, because large, short-lived batches and compressors fragment
    the heap of each thread. Does nothing without glibc.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        malloc_option = ctypes.CDLL(None).mallopt
        malloc_option(_ARENA_MAX, _ARENAS)
        malloc_option(_MMAP_THRESHOLD, _LARGE_BYTES)
