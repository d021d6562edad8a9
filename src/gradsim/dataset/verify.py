"""Verification and repair of a data set.

Files are compared with the hashes of their bytes, and videos with the hashes of their decoded content, which detects
faults of the disk and of the reader. `content_hash` is over the decoded videos in order: it is independent of the number
of workers, the engine and the compression.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gradsim.dataset import labels
from gradsim.dataset.generate import generate_units
from gradsim.dataset.layout import DamagedError, DatasetLayout, DatasetSettings, UnitManifest
from gradsim.dataset.reader import DatasetReader
from gradsim.dataset.zarr_shard import file_fingerprint
from gradsim.runtime.atomic import drafts, remove_draft
from gradsim.runtime.parallel import run_jobs


@dataclass(frozen=True)
class Fault:
    """A missing or damaged file.

    Attributes:
        file: Path in the folder.
        why: Description of the fault.
        unit: Unit that it belongs to; None: all.
        missing: True if it was never generated, as far as is known.
    """

    file: str
    why: str
    unit: int | None = None
    missing: bool = False


@dataclass(frozen=True)
class VerificationReport:
    """Result of a verification.

    Attributes:
        expected: Intended number of videos.
        count: Number of intact videos.
        content_hash: SHA-256 over the decoded content of these, in order.
        faults: Missing and damaged files.
        leftovers: Drafts of killed or running runs.
        bytes: Bytes on disk, by array and "labels".
        cpu_s: CPU time of the generation of all units [s].
        made_s: Total wall time of all runs [s].
        read_s: Wall time of this verification [s].
    """

    expected: int
    count: int
    content_hash: str
    faults: tuple[Fault, ...]
    leftovers: tuple[str, ...]
    bytes: dict[str, int]
    cpu_s: float
    made_s: float
    read_s: float

    @property
    def whole(self) -> bool:
        """True if no file is missing or damaged."""
        return not self.faults

    @property
    def units(self) -> list[int]:
        """Units with faults."""
        return sorted({fault.unit for fault in self.faults if fault.unit is not None})

    def summary(self) -> dict:
        """JSON content."""
        content = {key: value for key, value in asdict(self).items() if key != "faults"}
        missing, bad = ([f for f in self.faults if f.missing is lost] for lost in (True, False))
        return content | {
            "whole": self.whole,
            "missing": [{"unit": f.unit, "file": f.file, "why": f.why} for f in missing],
            "bad": [{"unit": f.unit, "file": f.file, "why": f.why} for f in bad],
        }


def verify(
    folder: str | Path,
    engine: str = "serial",
    workers: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
) -> VerificationReport:
    """Read and check a whole data set; arguments as for `generate`.

    Raises:
        InputError: If the folder holds no data set.
    """
    layout, start = DatasetLayout.open(folder), time.monotonic()
    last = max((int(path.stem) for path in layout.manifest(0).parent.glob("[0-9]*.json")), default=-1)
    count = max(layout.count, last * layout.settings.unit + 1)
    faults = [
        Fault(str(path.relative_to(layout.folder)), "is missing" if not path.is_file() else "was changed")
        for path, content in layout.headers(count)
        if not path.is_file() or path.read_bytes() != content
    ]
    jobs = [(layout, unit, count, not faults) for unit in layout.units(count)]
    checked = dict(run_jobs(check_unit, jobs, engine, workers, report=report))
    content = hashlib.sha256(f"{layout.settings.kind} {layout.settings.seed}".encode())
    right, sizes, cpu = 0, dict.fromkeys(layout.files(0), 0), 0.0
    for unit in layout.units(count):
        unit_faults, videos, manifest = checked[unit]
        faults += unit_faults
        for number, video in zip(layout.members(unit, count), videos, strict=False):
            content.update(f"{number} {video}\n".encode())
            right += 1
        if manifest is not None:
            cpu += manifest.cpu_s
            sizes = {name: size + manifest.files[name]["bytes"] for name, size in sizes.items()}
    leftovers = tuple(sorted(str(path.relative_to(layout.folder)) for path in drafts(layout.folder, recursive=True)))
    made, read = sum(run["wall_s"] for run in layout.runs()), time.monotonic() - start
    return VerificationReport(count, right, content.hexdigest(), tuple(faults), leftovers, sizes, cpu, made, read)


def repair(
    folder: str | Path,
    engine: str = "serial",
    workers: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
) -> tuple[VerificationReport, dict]:
    """Regenerate the units that `verify` reports as missing or damaged; arguments as for `generate`.

    Returns:
        The verification before the repair, and the record of the repair.

    Raises:
        InputError: If the folder holds no data set, or the code or its libraries have changed since it was made.
    """
    layout = DatasetLayout.open(folder)
    before = verify(folder, engine, workers, report)
    settings = layout.settings
    layout.compare(DatasetSettings.of(settings.kind, settings.seed, settings.sizes, settings.unit))
    for draft in before.leftovers:
        remove_draft(layout.folder / draft)
    layout.grow(before.expected)
    return before, generate_units(layout, before.units, before.expected, engine, workers, report, "repair")


def check_unit(job: tuple[DatasetLayout, int, int, bool]) -> tuple[list[Fault], list[str], UnitManifest | None]:
    """Faults of a unit, hashes of its videos if there are no faults, and its manifest.

    Args:
        job: Layout, unit, videos of the data set, and whether to decode them.
    """
    layout, unit, count, decode = job
    files = {"entry": layout.manifest(unit), **layout.files(unit)}
    fault = lambda name, why, missing=False: Fault(str(files[name].relative_to(layout.folder)), why, unit, missing)
    try:
        manifest = UnitManifest.read(files["entry"])
    except FileNotFoundError:
        return [fault("entry", "is missing: the unit was never finished", True)], [], None
    except DamagedError as error:
        return [fault("entry", f"was changed ({error})")], [], None
    if manifest.unit != unit or manifest.settings != layout.settings.digest:
        return [fault("entry", "belongs to another data set or unit")], [], None
    faults = []
    for name, written in manifest.files.items():
        if not files[name].is_file():
            faults.append(fault(name, "is missing"))
        elif files[name].stat().st_size != written["bytes"]:
            faults.append(fault(name, f"has {files[name].stat().st_size} bytes instead of {written['bytes']}"))
        elif file_fingerprint(files[name]) != written:
            faults.append(fault(name, "was changed: other bytes than were written"))
    needed = len(layout.members(unit, count))
    if len(manifest.videos) < needed:
        faults.append(fault("entry", f"has {len(manifest.videos)} of {needed} videos", True))
    if faults or not decode:
        return faults, [] if faults else list(manifest.videos), manifest
    recordings = DatasetReader(layout.folder, check=False)
    for number, written in zip(layout.members(unit, count), manifest.videos, strict=False):
        if labels.digest(recordings.label(number), recordings.video(number)) != written:
            return [fault("entry", f"video {number} decodes to something else than was written")], [], manifest
    return [], list(manifest.videos), manifest
