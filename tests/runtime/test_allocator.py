"""Freed memory that is used again: large arrays come from the heap within a call, and from mappings of their own outside.

Each test has a process of its own: in an old one a hole in the heap may hold the large array.
"""

import ctypes
import gc
import os
import subprocess
import sys

import pytest

from gradsim.runtime.allocator import DEFAULT_COLLECTIONS, RARE_COLLECTIONS, SETTINGS, collect_rarely

BEGIN = """
import ctypes

import numpy as np

from gradsim.runtime.allocator import freed_memory_reused

FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
LARGE = 2**27  # bytes, above the largest threshold of mappings


class Usage(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS]


library = ctypes.CDLL(None)
library.mallinfo2.restype = Usage


def mapped_bytes():
    before = library.mallinfo2().hblkhd
    array = np.empty(LARGE, np.uint8)
    return library.mallinfo2().hblkhd - before if len(array) else 0
"""


def run(code: str, **settings: str) -> None:
    """Run code in a new process whose allocator has these settings only."""
    if not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("not the C library of GNU")
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code], env=environment | settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_large_arrays_come_from_the_heap_within_the_outermost_call():
    run("""
assert mapped_bytes() >= LARGE
with freed_memory_reused():
    with freed_memory_reused():
        assert mapped_bytes() == 0
    assert mapped_bytes() == 0
assert mapped_bytes() >= LARGE
""")


def test_freed_memory_goes_back_to_the_system_after_the_call():
    run("""
with freed_memory_reused():
    np.ones(LARGE, np.uint8)
    assert library.mallinfo2().keepcost >= LARGE
assert library.mallinfo2().keepcost < LARGE
""")


def test_allocator_of_a_user_is_left_alone():
    run("with freed_memory_reused():\n    assert mapped_bytes() >= LARGE", MALLOC_TRIM_THRESHOLD_="131072")


@pytest.mark.parametrize(
    ("before", "after"),
    [(DEFAULT_COLLECTIONS, RARE_COLLECTIONS), ((900, 10, 10), (900, 10, 10)), ((0, 10, 10), (0, 10, 10))],
)
def test_collections_are_rare_unless_a_user_has_settings_of_their_own(before, after):
    settings = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        collect_rarely()
        assert gc.get_threshold() == after
    finally:
        gc.set_threshold(*settings)


def test_python_collects_by_default_as_often_as_we_take_it_to():
    program = "import gc; print(*gc.get_threshold())"
    printed = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True).stdout
    assert tuple(map(int, printed.split())) == DEFAULT_COLLECTIONS
