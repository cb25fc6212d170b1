"""Memory of a long push: what is freed goes back to the system, and does not stay in the heaps of many threads."""

import contextlib
import ctypes

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""As in glibc's malloc.h."""
_ARENAS = 2
_LARGE_BYTES = 256 * 1024


def keep_memory_flat() -> None:
    """Give batches and compressors memory of their own, since they are large and short-lived. Needs glibc.

    Without it, memory rises with the length of a book: each thread keeps a heap that is full of holes.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        malloc_option = ctypes.CDLL(None).mallopt
        malloc_option(_ARENA_MAX, _ARENAS)
        malloc_option(_MMAP_THRESHOLD, _LARGE_BYTES)
