"""Read a whole data set again: is every video there, is every bit what was written; and make anew what is not.

Files are compared with the hashes of their bytes, and videos with the hashes of what they decode to, so that both a
fault of the disk and one of the reader show. `content_hash` is over the decoded videos in order: it is the same for any
number of workers, any engine, any compression.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from gradsim.dataset import labels
from gradsim.dataset.generate import make
from gradsim.dataset.layout import Damaged, Entry, Layout, Settings
from gradsim.dataset.reader import Recordings
from gradsim.dataset.zarr_shard import fingerprint
from gradsim.runtime.atomic import drafts, remove_draft
from gradsim.runtime.parallel import run_jobs


@dataclass(frozen=True)
class Fault:
    """Something that is not as it should be.

    Attributes:
        file: Which, in the folder.
        why: What is wrong with it.
        unit: To which unit it belongs; None: to all.
        missing: Whether it was never made, as far as can be seen.
    """

    file: str
    why: str
    unit: int | None = None
    missing: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a data set holds.

    Attributes:
        expected: Videos that it is meant to have.
        count: Of these, those that are there and right.
        content_hash: SHA-256 over the decoded content of these, in order.
        faults: What is missing or wrong, file by file.
        leftovers: Drafts of runs that were killed, or that are going on.
        bytes: On disk, by array and "labels".
        cpu_s: CPU time that the units took to make [s].
        made_s: Wall time of all runs that made some, one after another [s].
        read_s: Wall time of this reading [s].
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
        """Whether nothing is missing or wrong."""
        return not self.faults

    @property
    def units(self) -> list[int]:
        """Those with faults."""
        return sorted({fault.unit for fault in self.faults if fault.unit is not None})

    def summary(self) -> dict:
        """As JSON holds it."""
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
) -> Verdict:
    """Read everything again; arguments as for `generate`.

    Raises:
        InputError: If the folder holds no data set.
    """
    layout, start = Layout.open(folder), time.monotonic()
    last = max((int(path.stem) for path in layout.entry(0).parent.glob("[0-9]*.json")), default=-1)
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
        found, videos, entry = checked[unit]
        faults += found
        for number, video in zip(layout.members(unit, count), videos, strict=False):
            content.update(f"{number} {video}\n".encode())
            right += 1
        if entry is not None:
            cpu += entry.cpu_s
            sizes = {name: size + entry.files[name]["bytes"] for name, size in sizes.items()}
    leftovers = tuple(sorted(str(path.relative_to(layout.folder)) for path in drafts(layout.folder, recursive=True)))
    made, read = sum(run["wall_s"] for run in layout.runs()), time.monotonic() - start
    return Verdict(count, right, content.hexdigest(), tuple(faults), leftovers, sizes, cpu, made, read)


def repair(
    folder: str | Path,
    engine: str = "serial",
    workers: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
) -> tuple[Verdict, dict]:
    """Make again what `verify` finds missing or wrong, and nothing else; arguments as for `generate`.

    Returns:
        What was found before, and the record of what was made.

    Raises:
        InputError: If the folder holds no data set, or what computes has changed since it was made.
    """
    layout = Layout.open(folder)
    found = verify(folder, engine, workers, report)
    kept = layout.settings
    layout.compare(Settings.of(kept.kind, kept.seed, kept.sizes, kept.unit))
    for draft in found.leftovers:
        remove_draft(layout.folder / draft)
    layout.grow(found.expected)
    return found, make(layout, found.units, found.expected, engine, workers, report, "repair")


def check_unit(job: tuple[Layout, int, int, bool]) -> tuple[list[Fault], list[str], Entry | None]:
    """Faults of one unit, hashes of its videos if it has none, and its entry.

    Args:
        job: The data set; the unit; how many videos there are in all; whether to decode them, too.
    """
    layout, unit, count, decode = job
    files = {"entry": layout.entry(unit), **layout.files(unit)}
    fault = lambda name, why, missing=False: Fault(str(files[name].relative_to(layout.folder)), why, unit, missing)
    try:
        entry = Entry.read(files["entry"])
    except FileNotFoundError:
        return [fault("entry", "is missing: the unit was never finished", True)], [], None
    except Damaged as error:
        return [fault("entry", f"was changed ({error})")], [], None
    if entry.unit != unit or entry.settings != layout.settings.digest:
        return [fault("entry", "belongs to another data set or unit")], [], None
    faults = []
    for name, kept in entry.files.items():
        if not files[name].is_file():
            faults.append(fault(name, "is missing"))
        elif files[name].stat().st_size != kept["bytes"]:
            faults.append(fault(name, f"has {files[name].stat().st_size} bytes, {kept['bytes']} were written"))
        elif fingerprint(files[name]) != kept:
            faults.append(fault(name, "was changed: other bytes than were written"))
    needed = len(layout.members(unit, count))
    if len(entry.videos) < needed:
        faults.append(fault("entry", f"has {len(entry.videos)} of {needed} videos", True))
    if faults or not decode:
        return faults, [] if faults else list(entry.videos), entry
    recordings = Recordings(layout.folder)
    for number, kept in zip(layout.members(unit, count), entry.videos, strict=False):
        if labels.digest(recordings.label(number), recordings.film(number)) != kept:
            return [fault("entry", f"video {number} decodes to something else than was written")], [], entry
    return [], list(entry.videos), entry
