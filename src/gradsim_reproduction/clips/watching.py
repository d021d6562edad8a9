"""A video watched as a user would, and the record of its fit."""

from pathlib import Path

from gradsim.errors import InputError, Status
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.clip import Clip
from gradsim_reproduction.clips.figures import FAR
from gradsim_reproduction.clips.scenes import Recording

EMPTY = "empty"  # background of a video whose median is refused


def observe(scene, video: Path, empty: Path) -> tuple[Clip, Masks]:
    """The clip with the median of the video as background, or with the empty scene where that is refused, and its masks."""
    clip = Clip(video, background="median", noise="auto")
    try:
        masks = clip.observe(scene)
    except InputError:
        clip = Clip(video, background=empty, noise="auto")
        masks = clip.observe(scene)
    assert isinstance(masks, Masks)
    return clip, masks


def fit_record(fit: Fit, one: Recording) -> dict:
    """Status, errors and effort of a fit."""
    rows = {}
    for name, e in fit.unknowns.items():
        off = e.value - one.truth[name]
        row = {"truth": one.truth[name], "value": e.value, "std": e.std, "z": off / e.std}
        rows[name] = row | {"inside": bool(e.interval95[0] <= one.truth[name] <= e.interval95[1])}
    outline = {key: fit.outline[key] for key in ("offset", "offset_std", "size", "shift", "excess", "memory", "words")}
    return {
        "status": fit.status,
        "unknowns": rows,
        "silent": bool(
            fit.status in (Status.OK, Status.APPROXIMATE) and any(not abs(u["z"]) <= FAR for u in rows.values())
        ),
        "outline": outline,
        "notes": fit.notes,
        "converged": fit.starts["converged"] / fit.starts["count"],
        "rollouts": fit.rollouts,
        "cpu_seconds": fit.cpu_seconds,
    }
