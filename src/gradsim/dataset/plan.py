"""What a data set of any number of videos takes, from what one that is there took.

    CPU time = videos · CPU-s each          hours = CPU time / (cores · use of a core)

Videos do not know of one another, so that time and bytes grow with their number. The use of a core is what runs of this
data set had: the rest of their time went into starting, waiting for the disk and for whatever else ran there.
"""

import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from gradsim.dataset.entry import Damaged, Entry
from gradsim.dataset.layout import Layout
from gradsim.errors import InputError


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
