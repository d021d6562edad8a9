"""Start of Warp without its warning of a missing CUDA driver, with which every run on a CPU would begin."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from tempfile import TemporaryFile

import warp as wp

NO_DRIVER = b"NVIDIA CUDA driver"  # in the warning, which Warp's library writes itself, whatever its level of logging


@cache
def init_warp() -> None:
    """Initialize Warp, which a call from a tensor needs; again at no cost."""
    with _native_stderr_without(NO_DRIVER):
        wp.init()


@contextmanager
def _native_stderr_without(words: bytes) -> Iterator[None]:
    """Hold back what native code writes to stderr, and pass on the lines that lack these words."""
    try:
        original = os.dup(2)
    except OSError:  # a process without stderr
        yield
        return
    sys.stderr.flush()
    with TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            for line in held:
                if words not in line:
                    os.write(2, line)
