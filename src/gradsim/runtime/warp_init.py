"""Start of Warp: without its warning of a missing CUDA driver, with which every run on a CPU would begin, and with its headers compiled once.

Warp compiles its own headers for each process that compiles a kernel, once for each set of flags: 1.5 s of CPU time, as much as a large
module takes. They stay with the kernels here, in a folder whose name says for what they are good; the compiler itself looks whether
a header has changed since.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import warp as wp

NO_DRIVER = b"NVIDIA CUDA driver"  # in the warning, which Warp's library writes itself, whatever its level of logging
HEADERS = Path(wp.__file__).parent / "native"
NATIVE = "-march=native"


@cache
def init_warp() -> None:
    """Initialize Warp, which a call from a tensor needs; again at no cost."""
    with _native_stderr_without(NO_DRIVER):
        wp.init()
    _keep_compiled_headers()


def _keep_compiled_headers() -> None:
    """Compiled headers of Warp stay in its folder of kernels, where its versions let us say so."""
    runtime: Any = getattr(wp._src.context, "runtime", None)  # pyright: ignore[reportPrivateUsage]
    if getattr(runtime, "llvm", None) is not None and hasattr(runtime, "get_clang_pch_dir"):
        runtime.get_clang_pch_dir = compiled_headers


def compiled_headers() -> str:
    """Folder of compiled headers for this processor, and for the headers and the compiler of this installation."""
    stat = (HEADERS / "builtin.h").stat()
    target = wp.get_cpu_kernel_cache_key(cpu_compiler_flags=NATIVE)
    made_of = f"{target} {HEADERS} {stat.st_size} {stat.st_mtime_ns}"
    name = f"wp_headers_{hashlib.sha256(made_of.encode()).hexdigest()[:8]}"  # as Warp names what it may clear
    folder = Path(wp.config.kernel_cache_dir or "") / name
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


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
