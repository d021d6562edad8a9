"""Start of Warp, in a process of its own."""

import os
import subprocess
import sys

from gradsim.runtime import warp_init

SCRIPT = """
import os, warp as wp
def init(): os.write(2, b"Warp CUDA warning: no NVIDIA CUDA driver.\\nWarp error: a library is broken.\\n")
wp.init = init
from gradsim.runtime.warp_init import init_warp
{before}
init_warp()
init_warp()
os.write(2, b"afterwards\\n")
"""

KERNEL = """
import warp as wp

from gradsim.runtime.warp_init import init_warp

wp.config.log_level = wp.LOG_ERROR


@wp.kernel(enable_backward=False)
def add(x: wp.array[float]):
    x[wp.tid()] += {number}


init_warp()
x = wp.zeros(1, dtype=float, device="cpu")
wp.launch(add, dim=1, inputs=[x], device="cpu")
print(x.numpy()[0])
"""


def stderr(before: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)], capture_output=True, text=True, check=True
    )
    return done.stderr


def test_only_the_warning_of_a_missing_driver_is_held_back():
    assert stderr() == "Warp error: a library is broken.\nafterwards\n"


def test_a_process_without_stderr_starts_as_well():
    assert stderr("import sys; os.close(2); wp.init = lambda: None; os.write = lambda *words: None") == ""


def test_processes_share_the_compiled_headers_of_warp(tmp_path):
    def compiled(number: float) -> dict[str, int]:
        """Compiled headers in the cache, and when they were written, after a process that compiles a kernel."""
        program = tmp_path / "add.py"
        program.write_text(KERNEL.format(number=number))
        environment = {**os.environ, "WARP_CACHE_PATH": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, program], capture_output=True, text=True, check=True, env=environment, timeout=120
        )
        assert (float(done.stdout), done.stderr) == (number, "")
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.pch")}

    first = compiled(1.5)
    assert len(first) == 1
    assert compiled(2.5) == first
    assert len([path for path in tmp_path.rglob("*.o") if "add" in path.name or "main" in path.name]) == 2


def test_compiled_headers_are_of_one_installation(tmp_path, monkeypatch):
    monkeypatch.setattr(warp_init.wp.config, "kernel_cache_dir", str(tmp_path))
    folders = {warp_init.compiled_headers()}
    header = tmp_path / "native" / "builtin.h"
    header.parent.mkdir()
    monkeypatch.setattr(warp_init, "HEADERS", header.parent)
    for text in ("#pragma once", "#pragma once // another version"):
        header.write_text(text)
        folders.add(warp_init.compiled_headers())
    assert len(folders) == 3
