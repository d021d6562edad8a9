"""Freed memory that is used again.

The C library of Linux maps new memory for each tensor of more than 32 MB, and unmaps it when the tensor is freed. The system clears
every new page, which is a third of the CPU time of a fit to 640×480 pixels, whose tensors are large and short-lived. With the
settings of this module freed memory stays with the process until the call ends.

Python looks for unreachable cycles of objects after every 700 new ones, and from time to time among all there are: 800 000 with
those of PyTorch, Warp and matplotlib, which live as long as the process.
"""

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# parameters of mallopt(3), and what they are within and after a call
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD, MMAP_MAX = -1, -2, -3, -4
REUSE_SETTINGS = {MMAP_MAX: 0, TRIM_THRESHOLD: -1, TOP_PAD: 2**26}
# what the C library adapts to by itself
RETURN_SETTINGS = {MMAP_MAX: 2**16, MMAP_THRESHOLD: 2**25, TRIM_THRESHOLD: 2**26, TOP_PAD: 2**17}
SETTINGS = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")

DEFAULT_COLLECTIONS = (700, 10, 10)  # of Python: new objects, and younger collections, before one of each generation
RARE_COLLECTIONS = (10_000, 20, 100)

_lock = Lock()
_calls = 0  # that need freed memory now


def reuse_freed_memory() -> None:
    """Keep freed memory for the rest of the process; without effect where a user has set the allocator, or it is another one."""
    global _calls
    with _lock:
        _calls += 1
        if _calls == 1:
            _set(REUSE_SETTINGS)


def collect_rarely() -> None:
    """Look for unreachable objects less often in this process, if its settings are those that Python begins with.

    It saves a fifth of the CPU time of imports and of plots.
    """
    if gc.get_threshold() == DEFAULT_COLLECTIONS:
        gc.set_threshold(*RARE_COLLECTIONS)


@contextmanager
def freed_memory_reused() -> Iterator[None]:
    """Freed memory is used again within, and returned to the system afterwards; a context or a decorator."""
    global _calls
    reuse_freed_memory()
    try:
        yield
    finally:
        with _lock:
            _calls -= 1
            if _calls == 0 and (library := _set(RETURN_SETTINGS)):
                library.malloc_trim(0)


def _set(options: dict[int, int]) -> ctypes.CDLL | None:
    """The C library with these options; None where it is not that of GNU, or has settings of the user."""
    if not sys.platform.startswith("linux") or any(name in os.environ for name in SETTINGS):
        return None
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return None
    for name, value in options.items():
        library.mallopt(name, value)
    return library
