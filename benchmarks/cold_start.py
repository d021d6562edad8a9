"""Cold start: CPU time of `gradsim demo` with nothing compiled and with all compiled, and of imports.

Each is a process of its own with one thread. `demo_cold_cpu_s` has an empty cache of kernels, `demo_warm_cpu_s` is the least of the runs after
it. `import_cpu_s` is the least time of `import gradsim.identification.api`, of which `import_torch_cpu_s` are PyTorch's. Bytecode is there, as pip and `make
setup` make it.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from gradsim.app.figures import figure

GOALS = {"demo_cold_cpu_s": 14.0, "demo_warm_cpu_s": 8.0}
WARM_RUNS, IMPORTS = 2, 3
MODULES = {"import_cpu_s": "gradsim.identification.api", "import_torch_cpu_s": "torch"}


def child_cpu_seconds(words: list[str], environment: dict[str, str]) -> float:
    """CPU time of a Python process with these arguments, and of its children."""
    used = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    begin = used()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env={**os.environ, **environment})
    return used() - begin


def cold_start() -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"}
    seconds = {}
    for name, module in MODULES.items():
        times = [child_cpu_seconds(["-c", f"import {module}"], bytecode) for _ in range(1 + IMPORTS)]
        seconds[name] = min(times[1:])  # the first may make bytecode
    with tempfile.TemporaryDirectory() as folder:
        environment = bytecode | {"WARP_CACHE_PATH": str(Path(folder) / "kernels")}
        words = ["-m", "gradsim", "demo", "--threads", "1", "--out", str(Path(folder) / "demo")]
        cold, *warm = (child_cpu_seconds(words, environment) for _ in range(1 + WARM_RUNS))
    seconds |= {"demo_cold_cpu_s": cold, "demo_warm_cpu_s": min(warm)}
    notes = [(__doc__ or "").strip(), *(f"{name}: {value:.2f} CPU-s" for name, value in seconds.items())]
    return {name: figure(value, goal=GOALS.get(name)) for name, value in seconds.items()}, notes
