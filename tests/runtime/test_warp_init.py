"""Start of Warp, in a process of its own."""

import subprocess
import sys

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


def stderr(before: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(before=before)], capture_output=True, text=True, check=True
    )
    return done.stderr


def test_only_the_warning_of_a_missing_driver_is_held_back():
    assert stderr() == "Warp error: a library is broken.\nafterwards\n"


def test_a_process_without_stderr_starts_as_well():
    assert stderr("import sys; os.close(2); wp.init = lambda: None; os.write = lambda *words: None") == ""
