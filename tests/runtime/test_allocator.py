"""Freed memory that is used again: large arrays come from the heap within a call, and from mappings of their own outside."""

import ctypes
import sys

import numpy as np
import pytest

from gradsim.runtime import allocator
from gradsim.runtime.allocator import SETTINGS, freed_memory_reused

LARGE = 2**27  # bytes, above the largest threshold of mappings
FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Usage(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS]


@pytest.fixture
def library(monkeypatch):
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    if not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("not the C library of GNU")
    monkeypatch.setattr(allocator, "_calls", 0)  # workers that tests begin in this process keep it for good
    allocator._set(allocator.RETURNED)
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Usage
    return library


def mapped_bytes(library) -> int:
    """Bytes that a large array has in mappings of its own."""
    before = library.mallinfo2().hblkhd
    array = np.empty(LARGE, np.uint8)
    return library.mallinfo2().hblkhd - before if len(array) else 0


def test_large_arrays_come_from_the_heap_within_the_outermost_call(library):
    assert mapped_bytes(library) >= LARGE
    with freed_memory_reused():
        with freed_memory_reused():
            assert mapped_bytes(library) == 0
        assert mapped_bytes(library) == 0
    assert mapped_bytes(library) >= LARGE


def test_freed_memory_goes_back_to_the_system_after_the_call(library):
    with freed_memory_reused():
        np.ones(LARGE, np.uint8)
        assert library.mallinfo2().keepcost >= LARGE
    assert library.mallinfo2().keepcost < LARGE


def test_allocator_of_a_user_is_left_alone(library, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    with freed_memory_reused():
        assert mapped_bytes(library) >= LARGE
