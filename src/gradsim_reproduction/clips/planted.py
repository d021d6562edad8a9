"""Eight single faults, each planted in a video of a ball in flight: is it the first cause that the verdict names?

The start, gravity and all else are known, two velocities are not. The fault is in the video or in the model's scene:

    rate            the clock of file and scene is 3 % off
    distance        the scene's camera is 4 % too near
    size            the scene's ball is 8 % too large
    lens            x' = c + (x − c) (1 − 0.12 |x − c|²/f²)
    blur            the shutter is open for 20 ms from each stamp on
    rolling shutter the last row is read 21 ms after the first
    mask            the body throws a shadow on a wall, which is subtracted as the body is
    force           linear drag of 0.6 /s

An `approximate` answer is flagged, too, and its intervals count.

Blur is the mean of coverage at eight instants, and rows are those of coverages at instants of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.app.figures import figure
from gradsim.errors import InputError, Status
from gradsim.identification.api import identify
from gradsim.identification.observation.clip import Clip
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene
from gradsim_reproduction.clips import videos
from gradsim_reproduction.clips.figures import FLAGGED
from gradsim_reproduction.clips.figures import coverage as coverage_of_intervals
from gradsim_reproduction.clips.motion import surface
from gradsim_reproduction.clips.scenes import (
    AIR,
    GRAVITY,
    KINDS,
    MIDDLE,
    RATE_OFF,
    SCENE,
    STARTS,
    TRUTH,
    Recording,
    stream,
)
from gradsim_reproduction.clips.watching import fit_record
from gradsim_reproduction.foreign.area_coverage import coverage

NUMBER = 2000  # of recordings that are none of the table's
UNKNOWNS = ("ball.velocity.x:1.8:2.8", "ball.velocity.z:3.8:4.8")
NEARER, LARGER, RADIAL, EXPOSURE, READOUT, SHADOW = 0.96, 1.08, -0.12, 0.02, 0.021, 0.3
INSTANTS, BANDS = 8, 24  # of an exposure, and of the rows

NAMES = {  # what a fault may be called: they are the same, or look the same in a video
    "rate": ("timing.rate",),
    "distance": ("camera.translation.z", "camera.focal"),
    "size": ("ball.scale",),
    "lens": ("lens distortion",),
    "blur": ("late exposure",),
    "rolling shutter": ("rolling shutter",),
    "mask": ("masks",),
    "force": ("air drag",),
}


@dataclass(frozen=True)
class Retimed(Recording):
    """A recording at other instants.

    Args:
        delay: After the stamps [s].
    """

    delay: float = 0.0

    @property
    def times(self) -> np.ndarray:
        return super().times + self.delay


def flight(seed: int) -> Recording:
    """A ball in flight whose two velocities are unknown."""
    content, _ = KINDS["ball"].draw(MIDDLE, stream("ball", NUMBER, seed, SCENE))
    scene = Scene.parse({"name": "flight", "gravity": GRAVITY, **content})
    space, hidden = Space(scene, UNKNOWNS), stream("ball", NUMBER, seed, TRUTH)
    truth = {name: float(hidden.uniform(*space.range(k))) for k, name in enumerate(space.names)}
    return Recording("ball", NUMBER, scene, UNKNOWNS, truth, "")


def covered(one: Recording, fault: str) -> np.ndarray:
    """Coverage (frames, height, width) with a fault of the camera or of the motion."""
    at = lambda delay: Retimed(**vars(one), delay=delay)
    exact = lambda delay: videos.coverage_of(at(delay), one.truth, AIR if fault == "force" else 0.0)
    if fault == "blur":
        return np.mean([exact(EXPOSURE * (k + 0.5) / INSTANTS) for k in range(INSTANTS)], 0)
    if fault == "rolling shutter":
        edges = np.linspace(0, one.scene.camera.size[1], BANDS + 1).round().astype(int)
        middle = (edges[:-1] + edges[1:]) / 2 / edges[-1]
        bands = [exact(READOUT * m)[:, a:b] for a, b, m in zip(edges[:-1], edges[1:], middle, strict=True)]
        return np.concatenate(bands, 1)
    if fault == "lens":
        vertices, faces = surface(one, one.truth)
        width, height = one.scene.camera.size
        focal = height / 2 / np.tan(one.scene.camera.look_at.fov / 2)
        away = videos.on_image(one, vertices) - np.array([width / 2, height / 2])
        points = away * (1 + RADIAL * np.square(away / focal).sum(-1, keepdims=True)) + [width / 2, height / 2]
        return np.stack([coverage(frame, faces, one.scene.camera.size) for frame in points])
    return exact(0.0)


def write_clip(one: Recording, seed: int, fault: str, folder: Path) -> tuple[Path, Path]:
    """Video with a fault, and that of the empty scene; each is made once."""
    from scipy.ndimage import gaussian_filter

    folder.mkdir(parents=True, exist_ok=True)
    path, plate = folder / f"flight {fault or 'right'}.mp4", folder / "flight empty.mp4"
    fps, crf = one.scene.timing.fps * (RATE_OFF if fault == "rate" else 1), videos.quality(one, seed)
    if not path.exists():
        alpha, dark = covered(one, fault), None
        if fault == "mask":
            aside = tuple(int(share * alpha.shape[1]) for share in (0.16, 0.14))
            dark = SHADOW * gaussian_filter(np.roll(alpha, aside, (1, 2)), (0, 1.5, 1.5))
        videos.encode(path, videos.frames(one, seed, alpha=alpha, dark=dark), fps, crf, True)
    if not plate.exists():
        videos.encode(plate, videos.empty(one, seed), one.scene.timing.fps, crf, True)
    return path, plate


def scene_with(one: Recording, fault: str) -> Scene:
    """The scene that the fit takes for known."""
    content = one.scene.model_dump(exclude_unset=True)
    if fault == "rate":
        content["timing"]["fps"] *= RATE_OFF
    elif fault == "size":
        content["bodies"]["ball"]["shape"]["sphere"]["radius"] *= LARGER
    elif fault == "distance":
        look = content["camera"]["look_at"]
        look["eye"] = (np.add(look["target"], NEARER * np.subtract(look["eye"], look["target"]))).tolist()
    return Scene.parse(content)


def fit_planted(job: tuple[str, int, str]) -> dict:
    """Record of the fit of one fault: its name, seed, and the folder of the run. No fault: the right model."""
    fault, seed, out = job
    one = flight(seed)
    video, empty = write_clip(one, seed, fault, Path(out) / "videos")
    scene = scene_with(one, fault)
    starts = int(stream("ball", NUMBER, seed, STARTS).integers(2**31))
    record = {"fault": fault, "seed": seed, "causes": []}
    try:
        masks = Clip(video, background=empty, noise="auto").observe(scene)
        fit = identify(scene, one.unknowns, observation=masks, seed=starts)
    except InputError as error:
        return record | {"status": "refused", "message": str(error)}
    return record | {"causes": fit.outline["causes"]} | fit_record(fit, one)


def is_named(record: Mapping) -> bool:
    """True if the fault of a record is flagged, and the first cause."""
    causes = record["causes"]
    return record["status"] in FLAGGED and bool(causes) and causes[0]["name"] in NAMES[record["fault"]]


def planted_figures(records: Sequence[Mapping]) -> dict[str, dict]:
    """Number of faults that are named first, and which are not."""
    named = [r["fault"] for r in records if is_named(r)]
    figures: dict[str, dict] = {"cause_named": figure(len(named), goal=len(NAMES) - 1, ok=len(named) >= len(NAMES) - 1)}
    near = [r for r in records if r["status"] == Status.APPROXIMATE]
    figures["approximate (planted)"] = figure(len(near))
    figures["approximate_coverage (planted)"] = figure(coverage_of_intervals(near)[0])
    return figures | {f"cause_named ({r['fault']})": figure(float(is_named(r))) for r in records}
