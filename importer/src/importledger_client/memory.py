"""Memory of a long push: what was freed goes back to the system, instead of lying about in many threads' heaps."""

import contextlib
import ctypes

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8
"""As in glibc's malloc.h."""
_ARENAS = 2
_LARGE_BYTES = 256 * 1024


def keep_memory_flat() -> None:
    """Batches and compressors are large and short-lived: they get memory of their own. Without glibc, nothing is done.

    Else memory rises with the length of a book, as each thread keeps a heap that is full of holes.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        malloc_option = ctypes.CDLL(None).mallopt
        malloc_option(_ARENA_MAX, _ARENAS)
        malloc_option(_MMAP_THRESHOLD, _LARGE_BYTES)
