"""Make a data set: units of videos by any number of processes and machines, each of the same bits.

A unit's files are written first, each whole or not at all, and its entry last. A run that is killed loses the units it
was at, nothing else; the same command goes on. A video depends on the settings and its number alone: it is simulated and
drawn on its own, by one thread.

What a data set of any number of videos takes, from what one that is there took.

    CPU time = videos · CPU-s each          hours = CPU time / (cores · use of a core)

Videos do not know of one another, so that time and bytes grow with their number. The use of a core is what runs of this
data set had: the rest of their time went into starting, waiting for the disk and for whatever else ran there.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import torch

from gradsim.dataset import labels
from gradsim.dataset.layout import UNIT, Damaged, Entry, Layout, Settings
from gradsim.dataset.render import film
from gradsim.dataset.sample import sample
from gradsim.dataset.zarr_shard import ShardFile, fingerprint
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write, drafts, remove_draft
from gradsim.runtime.parallel import run_jobs

Job = tuple[Layout, int, int]  # where, which unit, how many videos the data set has


def generate(
    kind: str,
    count: int,
    out: str | Path,
    seed: int = 0,
    sizes: Sequence[int] = (64, 256),
    shard: tuple[int, int] = (1, 1),
    engine: str = "serial",
    workers: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
    unit: int = UNIT,
) -> dict:
    """Make the videos 0 to count − 1 that are not there yet.

    Args:
        kind: See `sample`.
        count: How many videos; more may be made later.
        out: The folder.
        seed: See `sample`.
        sizes: Width and height of the pictures [px], see `film.SIZES`.
        shard: (i, n): make the i-th of n shares of the units, i from 1 to n, for job arrays.
        engine, workers: See `gradsim.runtime.parallel.run_jobs`.
        report: Is told how many units of this run are finished, of how many.
        unit: Videos of one unit, which is made by one worker and lost with it.

    Returns:
        The record of this run: how many videos it made and what that took.

    Raises:
        InputError: If something that was given cannot be, or the folder holds a data set of other settings.
    """
    share, shares = shard
    if count < 1:
        raise InputError(f"n: got {count}; expected at least 1 video.")
    if not 1 <= share <= shares:
        raise InputError(f"shard: got {share}/{shares}; expected 1/{shares} to {shares}/{shares}.")
    layout = Layout.begin(out, Settings.of(kind, seed, sizes, unit))
    layout.grow(count)
    wanted = [k for k in layout.units(count) if k % shares == share - 1 and not is_whole(layout, k, count)]
    made = make(layout, wanted, layout.count, engine, workers, report, f"{share}/{shares}")
    layout.grow(count)  # where another run that wants fewer wrote in between
    return made


def make(
    layout: Layout,
    wanted: list[int],
    count: int,
    engine: str = "serial",
    workers: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
    share: str = "1/1",
) -> dict:
    """Make units, whether they are there or not; arguments and result as for `generate`."""
    record = layout.folder / "runs" / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}.json"
    start, found = time.monotonic(), {"videos": 0, "units": 0, "cpu_s": 0.0}
    kept = {"engine": engine, "workers": workers, "shard": share}
    jobs: list[Job] = [(layout, unit, count) for unit in wanted]
    for k, entry in run_jobs(make_unit, jobs, engine, workers, report=report):
        found["videos"] += len(layout.members(wanted[k], count))
        found["units"] += 1
        found["cpu_s"] += entry.cpu_s
        with atomic_write(record, fsync=True) as file:
            file.write(json.dumps({**kept, **found, "wall_s": time.monotonic() - start}, indent=1).encode())
    return {**kept, **found, "wall_s": time.monotonic() - start}


def is_whole(layout: Layout, unit: int, count: int) -> bool:
    """Whether a unit is there with all of its videos, by its entry and the lengths of its files."""
    try:
        entry = Entry.read(layout.entry(unit))
        lengths = {name: path.stat().st_size for name, path in layout.files(unit).items()}
    except (OSError, Damaged):
        return False
    whole = lengths == {name: kept["bytes"] for name, kept in entry.files.items()}
    return whole and len(entry.videos) >= len(layout.members(unit, count)) and entry.settings == layout.settings.digest


def make_unit(job: Job) -> Entry:
    """Simulate, draw and write one unit."""
    layout, unit, count = job
    start, begun, settings = time.process_time(), time.monotonic(), layout.settings
    files, rows, states, videos = layout.files(unit), [], [], []
    for path in (*files.values(), layout.entry(unit)):
        for draft in drafts(path.parent, path.name):  # of a run that was killed
            remove_draft(draft)
    with _one_thread(), ExitStack() as stack:
        shards = {
            name: ShardFile(stack.enter_context(atomic_write(files[name], fsync=True)), settings.unit)
            for name in layout.arrays
        }
        for k, number in enumerate(layout.members(unit, count)):
            drawn = sample(settings.kind, number, settings.seed)
            shot = film(drawn, settings.sizes)
            for size in settings.sizes:
                shards[f"frames_{size}"].add(k, shot.frames[size])
                shards[f"masks_{size}"].add(k, shot.masks[size])
            rows.append(labels.label(drawn, settings.sizes))
            states.append(shot.states)
            videos.append(labels.digest(rows[-1], shot))
        for shard in shards.values():
            shard.close()
    labels.write(files["labels"], rows, states)
    prints = {name: fingerprint(path) for name, path in files.items()}
    took = time.process_time() - start, time.monotonic() - begun
    entry = Entry(unit, settings.digest, tuple(videos), prints, *took)
    entry.write(layout.entry(unit))
    return entry


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in one order, however many threads the caller has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Plan:
    """What so many videos take.

    Attributes:
        videos: How many are planned.
        measured: Of how many the figures are.
        cpu_s_each: CPU time of one, with everything [s].
        bytes_each: On disk, by array and "labels".
        use: Share of a core's time that runs used.
        cpu_hours: Of all.
        bytes: On disk, of all.
        files: How many.
        cores: That work on them.
        hours: That takes so long.
        shards: Jobs of about an hour, for `--shard`.
    """

    videos: int
    measured: int
    cpu_s_each: float
    bytes_each: dict[str, float]
    use: float
    cpu_hours: float
    bytes: float
    files: int
    cores: int
    hours: float
    shards: int

    def summary(self) -> dict:
        """As JSON holds it."""
        return asdict(self)


def plan(folder: str | Path, videos: int, cores: int = 1) -> Plan:
    """The cost of a data set, from the records of one of the same kind and sizes.

    Args:
        folder: The one that is there.
        videos: Of the one that is planned.
        cores: That work on it.

    Raises:
        InputError: If the folder holds no finished videos, or a number is below 1.
    """
    for name, given in (("n", videos), ("cores", cores)):
        if given < 1:
            raise InputError(f"{name}: got {given}; expected at least 1.")
    layout = Layout.open(folder)
    entries = []
    for unit in layout.units(layout.count):
        with suppress(FileNotFoundError, Damaged):
            entries.append(Entry.read(layout.entry(unit)))
    measured = sum(len(entry.videos) for entry in entries)
    if not measured:
        raise InputError(f"{folder} has no finished videos to measure; make some: gradsim dataset generate.")
    each = sum(entry.cpu_s for entry in entries) / measured
    sizes = {name: sum(entry.files[name]["bytes"] for entry in entries) / measured for name in layout.files(0)}
    use = _use(layout)
    hours = videos * each / 3600
    return Plan(
        videos=videos,
        measured=measured,
        cpu_s_each=each,
        bytes_each=sizes,
        use=use,
        cpu_hours=hours,
        bytes=videos * sum(sizes.values()),
        files=math.ceil(videos / layout.settings.unit) * (len(sizes) + 1),
        cores=cores,
        hours=hours / (cores * use),
        shards=max(cores, math.ceil(hours / use)),
    )


def _use(layout: Layout) -> float:
    """CPU time over the time of all workers in the runs of a data set that made whole units; 1 if none is known."""
    runs = [run for run in layout.runs() if run["engine"] == "serial" or run["workers"]]
    busy = sum(run["cpu_s"] for run in runs)
    there = sum(run["wall_s"] * (run["workers"] or 1) for run in runs)
    return min(1.0, busy / there) if there else 1.0
