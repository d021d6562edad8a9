"""Generate a data set in units of videos, on any number of processes and machines, reproducible bit for bit.

The files of a unit are written atomically and its manifest last. A killed run loses only the units in progress, and the
same command continues it. A video depends on the settings and its number alone: each is simulated and rendered by one
thread, several at a time (`runtime.threads`).

`plan_generation` extrapolates the cost of a larger data set:

    CPU time = videos · CPU-s each          hours = CPU time / (cores · utilization of a core)

Videos are independent, so time and bytes are proportional to their number. The utilization is that of earlier runs of
this data set, which includes start-up, disk and other load.
"""

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

import torch

from gradsim.dataset import labels
from gradsim.dataset.layout import MOST_VIDEOS, UNIT, DamagedError, DatasetLayout, DatasetSettings, UnitManifest
from gradsim.dataset.render import RenderedVideo, render_sample
from gradsim.dataset.sample import Sample, sample
from gradsim.dataset.zarr_shard import ShardFile, file_fingerprint
from gradsim.errors import InputError
from gradsim.runtime.atomic import atomic_write, drafts, remove_abandoned_drafts, remove_draft
from gradsim.runtime.parallel import check_engine, run_jobs
from gradsim.runtime.threads import map_in_threads

Job = tuple[DatasetLayout, int, int]  # layout, unit, videos of the data set


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
    """Generate the missing ones of videos 0 to count − 1.

    Args:
        kind: See `sample`.
        count: Number of videos; more can be added later.
        out: Folder of the data set.
        seed: See `sample`.
        sizes: Widths and heights of the images [px], see `render.SIZES`.
        shard: (i, n): generate the i-th of n parts of the units, i from 1 to n, for job arrays.
        engine, workers: See `gradsim.runtime.parallel.run_jobs`.
        report: Called with the numbers of finished and of all units of this run.
        unit: Videos of a unit, which one worker generates.

    Returns:
        The record of this run: videos generated, CPU and wall time.

    Raises:
        InputError: If an argument is invalid, or the folder holds a data set of other settings.
    """
    share, shares = shard
    if count < 1:
        raise InputError(f"n: got {count}; expected at least 1 video.")
    if not 1 <= share <= shares:
        raise InputError(f"shard: got {share}/{shares}; expected 1/{shares} to {shares}/{shares}.")
    if count > MOST_VIDEOS:
        raise InputError(f"n: got {count}; expected at most {MOST_VIDEOS} videos in one data set.")
    check_engine(engine, workers)
    layout = DatasetLayout.begin(out, DatasetSettings.of(kind, seed, sizes, unit))
    layout.grow(count)
    units = [k for k in layout.units(count) if k % shares == share - 1 and not is_complete(layout, k, count)]
    made = generate_units(layout, units, layout.count, engine, workers, report, f"{share}/{shares}")
    layout.grow(count)  # another run for fewer videos may have written in between
    return made


def generate_units(
    layout: DatasetLayout,
    units: list[int],
    count: int,
    engine: str = "serial",
    workers: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
    share: str = "1/1",
) -> dict:
    """Generate units, replacing existing ones; arguments and result as for `generate`."""
    record = layout.folder / "runs" / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid4().hex[:8]}.json"
    start, totals = time.monotonic(), {"videos": 0, "units": 0, "cpu_s": 0.0}
    run = {"engine": engine, "workers": workers, "shard": share}
    jobs: list[Job] = [(layout, unit, count) for unit in units]
    for k, manifest in run_jobs(generate_unit, jobs, engine, workers, report=report):
        totals["videos"] += len(layout.members(units[k], count))
        totals["units"] += 1
        totals["cpu_s"] += manifest.cpu_s
        with atomic_write(record, fsync=True) as file:
            file.write(json.dumps({**run, **totals, "wall_s": time.monotonic() - start}, indent=1).encode())
    remove_abandoned_drafts(record.parent)
    return {**run, **totals, "wall_s": time.monotonic() - start}


def is_complete(layout: DatasetLayout, unit: int, count: int) -> bool:
    """True if a unit has all of its videos, by its manifest and the lengths of its files."""
    try:
        manifest = UnitManifest.read(layout.manifest(unit))
        lengths = {name: path.stat().st_size for name, path in layout.files(unit).items()}
    except (OSError, DamagedError):
        return False
    whole = lengths == {name: file["bytes"] for name, file in manifest.files.items()}
    return (
        whole
        and len(manifest.videos) >= len(layout.members(unit, count))
        and manifest.settings == layout.settings.digest
    )


def generate_unit(job: Job) -> UnitManifest:
    """Simulate, render and write one unit."""
    layout, unit, count = job
    start, begun, settings = time.process_time(), time.monotonic(), layout.settings
    files, rows, states, videos = layout.files(unit), [], [], []
    for path in (*files.values(), layout.manifest(unit)):
        for draft in drafts(path.parent, path.name):  # of a run that was killed
            remove_draft(draft)
    with _one_thread(), ExitStack() as stack:
        shards = {
            name: ShardFile(stack.enter_context(atomic_write(files[name], fsync=True)), settings.unit)
            for name in layout.arrays
        }
        make = partial(_sample_and_video, settings)
        for k, (one, video) in enumerate(map_in_threads(make, layout.members(unit, count))):
            for size in settings.sizes:
                shards[f"frames_{size}"].add(k, video.frames[size])
                shards[f"masks_{size}"].add(k, video.masks[size])
            rows.append(labels.label(one, settings.sizes))
            states.append(video.states)
            videos.append(labels.digest(rows[-1], video))
        for shard in shards.values():
            shard.close()
    labels.write(files["labels"], rows, states)
    prints = {name: file_fingerprint(path) for name, path in files.items()}
    took = time.process_time() - start, time.monotonic() - begun
    manifest = UnitManifest(unit, settings.digest, tuple(videos), prints, *took)
    manifest.write(layout.manifest(unit))
    return manifest


def _sample_and_video(settings: DatasetSettings, number: int) -> tuple[Sample, RenderedVideo]:
    one = sample(settings.kind, number, settings.seed)
    return one, render_sample(one, settings.sizes)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread, so that sums have one order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class GenerationPlan:
    """Estimated cost of a data set.

    Attributes:
        videos: Planned videos.
        measured: Videos that the estimate is based on.
        cpu_s_each: CPU time of a video [s].
        bytes_each: Bytes of a video, by array and "labels".
        use: Utilization of a core in earlier runs, as a fraction.
        cpu_hours: CPU time of all videos [h].
        bytes: Bytes of all videos.
        files: Number of files.
        cores: Number of cores.
        hours: Wall time [h].
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
        """JSON content."""
        return asdict(self)


def plan_generation(folder: str | Path, videos: int, cores: int = 1) -> GenerationPlan:
    """Estimate the cost of a data set from the records of one of the same kind and sizes.

    Args:
        folder: Existing data set.
        videos: Planned videos.
        cores: Number of cores.

    Raises:
        InputError: If the folder holds no finished videos, or a number is below 1.
    """
    for name, number in (("n", videos), ("cores", cores)):
        if number < 1:
            raise InputError(f"{name}: got {number}; expected at least 1.")
    layout = DatasetLayout.open(folder)
    manifests = []
    for unit in layout.units(layout.count):
        with suppress(FileNotFoundError, DamagedError):
            manifests.append(UnitManifest.read(layout.manifest(unit)))
    measured = sum(len(manifest.videos) for manifest in manifests)
    if not measured:
        raise InputError(f"{folder} has no finished videos to measure; make some: gradsim dataset generate.")
    cpu_s = sum(manifest.cpu_s for manifest in manifests) / measured
    sizes = {name: sum(manifest.files[name]["bytes"] for manifest in manifests) / measured for name in layout.files(0)}
    use = _use(layout)
    hours = videos * cpu_s / 3600
    return GenerationPlan(
        videos=videos,
        measured=measured,
        cpu_s_each=cpu_s,
        bytes_each=sizes,
        use=use,
        cpu_hours=hours,
        bytes=videos * sum(sizes.values()),
        files=math.ceil(videos / layout.settings.unit) * (len(sizes) + 1),
        cores=cores,
        hours=hours / (cores * use),
        shards=max(cores, math.ceil(hours / use)),
    )


def _use(layout: DatasetLayout) -> float:
    """CPU time over the wall time of all workers in earlier runs; 1 if unknown."""
    runs = [run for run in layout.runs() if run["engine"] == "serial" or run["workers"]]
    busy = sum(run["cpu_s"] for run in runs)
    available = sum(run["wall_s"] * (run["workers"] or 1) for run in runs)
    return min(1.0, busy / available) if available else 1.0
