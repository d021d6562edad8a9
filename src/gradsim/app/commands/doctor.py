"""`gradsim doctor`: versions and capabilities of this machine."""

import importlib.metadata
import os
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

PACKAGES = ("gradsim", "torch", "warp-lang", "numpy", "scipy", "trimesh", "av", "pillow", "pydantic", "matplotlib")
ENCODERS = {"libvpx-vp9": "webm", "libx264rgb": "mp4", "ffv1": "mp4", "gif": "gif", "png": "png"}
REQUIRED = ("libvpx-vp9", "png")  # for the videos of a report; mp4 and gif are optional
PACKAGE, EXTRA = re.compile(r"[\w.-]+"), re.compile(r"extra == [\"']([\w-]+)")  # of a requirement in the metadata
REAL_DATA = "../shared/data/real"  # unless GRADSIM_REAL_DATA names another folder


@dataclass(frozen=True)
class Finding:
    """Result of one check.

    Args:
        name: Name of the check.
        text: Result.
        ok: Whether gradsim works with it.
    """

    name: str
    text: str
    ok: bool = True


def examine() -> list[Finding]:
    """Run all checks; one that raises becomes a finding that is not ok."""
    checks: dict[str, Callable[[], Finding]] = {
        "packages": packages,
        "extras": extras,
        "processor": processor,
        "kernels": kernels,
        "cuda": cuda,
        "video": codecs,
        "real data": real_data,
    }
    return [_guarded(name, check) for name, check in checks.items()]


def packages() -> Finding:
    """Versions of Python and the packages."""
    versions = [f"python {platform.python_version()}"]
    missing = []
    for name in PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    missing_text = f"; missing: {', '.join(missing)}" if missing else ""
    return Finding("packages", ", ".join(versions) + missing_text, not missing)


def extras() -> Finding:
    """Extras of gradsim that are installed whole, and how the others are."""
    needed: dict[str, list[str]] = {}
    for line in importlib.metadata.requires("gradsim") or ():
        if (extra := EXTRA.search(line)) and (package := PACKAGE.match(line)):
            needed.setdefault(extra[1], []).append(package[0])
    lacking = {extra: [name for name in names if not _is_installed(name)] for extra, names in sorted(needed.items())}
    installed = [extra for extra, names in lacking.items() if not names]
    others = [f"{extra} ({', '.join(names)})" for extra, names in lacking.items() if names]
    text = f"{', '.join(installed) or 'none'} installed"
    return Finding("extras", f'{text}; pip install "gradsim[…]" for {", ".join(others)}' if others else text)


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def processor() -> Finding:
    """Cores available to this process, and the vector width of the kernels."""
    from gradsim.engine.lanes import native_width

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    width = native_width("float64")
    return Finding("processor", f"{platform.machine()}, {cores} cores, {64 * width}-bit vectors")


def kernels() -> Finding:
    """Compile and run one small kernel; folder of the kernel cache."""
    import numpy as np
    import warp as wp

    @wp.kernel(enable_backward=False)
    def square(x: wp.array[wp.float64]):  # pyright: ignore[reportInvalidTypeForm]
        i = wp.tid()
        x[i] = x[i] * x[i]

    begun = time.perf_counter()
    x = wp.array([1.0, 2.0, 3.0], dtype=wp.float64, device="cpu")
    wp.launch(square, dim=3, inputs=[x], device="cpu")
    is_right = np.array_equal(x.numpy(), [1.0, 4.0, 9.0])
    seconds = time.perf_counter() - begun
    message = f"a test kernel ran in {seconds:.1f} s" if is_right else "a test kernel gave a wrong result"
    return Finding(
        "kernels",
        f"{message}; {len(cached_modules())} modules of gradsim are cached in {wp.config.kernel_cache_dir}",
        is_right,
    )


def cached_modules() -> set[str]:
    """Names of the modules of gradsim in the cache of kernels."""
    import warp as wp

    wp.init()
    folder = Path(wp.config.kernel_cache_dir or "")  # known once Warp has begun
    return {p.name for p in folder.iterdir() if "gradsim" in p.name} if folder.is_dir() else set()


def cuda() -> Finding:
    """CUDA devices of PyTorch; gradsim does not need one."""
    import torch

    if not torch.cuda.is_available():
        return Finding("cuda", "no device; everything runs on the CPU")
    return Finding("cuda", ", ".join(torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())))


def codecs() -> Finding:
    """Encoders of the video formats that gradsim writes."""
    available = [f"{name} ({kind})" for name, kind in ENCODERS.items() if _encodes(name)]
    missing = [name for name in REQUIRED if not _encodes(name)]
    missing_text = f"; missing: {', '.join(missing)}" if missing else ""
    return Finding("video", ", ".join(available) + missing_text, not missing)


def real_data() -> Finding:
    """Folder of real recordings, for some experiments."""
    folder = Path(os.environ.get("GRADSIM_REAL_DATA", REAL_DATA))
    if not folder.is_dir():
        return Finding("real data", f"none in {folder}; set GRADSIM_REAL_DATA for `gradsim reproduce real-…`")
    names = sorted(p.name for p in folder.iterdir() if p.is_dir())
    return Finding("real data", f"{', '.join(names)} in {folder.resolve()}")


def table(findings: list[Finding]) -> Table:
    """Findings for a terminal."""
    grid = Table.grid(padding=(0, 2))
    for finding in findings:
        mark = Text("✓", "green") if finding.ok else Text("✗", "red")
        grid.add_row(mark, finding.name, finding.text)
    return grid


def _guarded(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 -- a check that raises is a finding
        return Finding(name, f"{type(error).__name__}: {error}", False)


def _encodes(name: str) -> bool:
    import av
    from av.codec.codec import UnknownCodecError

    try:
        return av.Codec(name, "w").is_encoder
    except UnknownCodecError:
        return False
