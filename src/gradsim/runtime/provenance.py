"""Provenance of results: the commit and the machine."""

import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path

from gradsim.runtime.threads import available_cores

_SOURCE = Path(__file__).parents[2]  # src, with the reproduction


@cache
def provenance() -> dict[str, str | int | None]:
    """Commit of the source (None outside a git checkout; "+" after it where files differ), processor, cores, system.

    Cached: a run calls it when it begins.
    """
    system = f"{platform.system()} {platform.machine()}"
    return {"commit": _commit(), "processor": _processor(), "cores": available_cores(), "system": system}


def versions() -> dict[str, str]:
    """Versions of gradsim, the libraries that compute, and Python."""
    packages = {}
    for name in ("gradsim", "torch", "warp-lang", "numpy"):
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = "not installed"
    return {**packages, "python": platform.python_version()}


def _commit() -> str | None:
    try:
        # an installed copy inside another project's checkout is not tracked there
        tracked = _git("ls-files", "--", __file__)
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", str(_SOURCE))
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + "+" * bool(changed) if tracked else None


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(_SOURCE), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
