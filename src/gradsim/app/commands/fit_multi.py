"""`gradsim fit` of several clips, of several cameras, or of a long clip in windows: the run folder.

A clip is a scene with the films of its cameras. On the command line a film is PATH, of the first camera, or
CAMERA=PATH; a film of a camera that has one already begins the next clip.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from gradsim import video as videos
from gradsim.app.report.report import write_report
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.api import model_for, placed, solve
from gradsim.identification.long_clip import MultipleShooting
from gradsim.identification.multi_clip import SharedSpace, of_clip, together
from gradsim.identification.observation.multi_view import from_videos
from gradsim.identification.problem import Problem
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.runtime.atomic import write_json
from gradsim.runtime.progress import NullProgress, Progress, reporting
from gradsim.scene import Scene
from gradsim.video.timing import align_frames
from gradsim.visualization.overlay_video import overlay, side_by_side

NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)=(.+)")


@dataclass(frozen=True)
class Clip:
    """A scene and its films.

    Args:
        scene: The scene file.
        videos: Film by the camera's name.
        masks: Mask videos by the camera's name, for some of them.
    """

    scene: Path
    videos: Mapping[str, Path]
    masks: Mapping[str, Path] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether the first camera alone filmed it."""
        return list(self.videos) == ["camera"] and list(self.masks) in ([], ["camera"])


def clips(scenes: Sequence[Path], films: Sequence[str | Path], masks: Sequence[str | Path] = ()) -> list[Clip]:
    """Clips from the words of a command.

    Args:
        scenes: Scene files, one for each clip or one for all.
        films: PATH or CAMERA=PATH.
        masks: The same for mask videos; a clip without one takes the colours, but then the last ones.

    Raises:
        InputError: If there is no film, or their number is not that of the scenes.
    """
    grouped, keys = _grouped(films), _grouped(masks)
    if not grouped:
        raise InputError("there is no video; give --video FILM, or --video FRONT side=SIDE for two cameras.")
    if len(scenes) not in (1, len(grouped)) or len(keys) > len(grouped):
        raise InputError(
            f"there are {len(scenes)} scenes, films of {len(grouped)} clips and masks of {len(keys)}; give one of each "
            "for every clip, or one scene for all."
        )
    each = list(scenes) * (len(grouped) if len(scenes) == 1 else 1)
    keys += [{}] * (len(grouped) - len(keys))
    return [Clip(scene, film, mask) for scene, film, mask in zip(each, grouped, keys, strict=True)]


def fit(
    given: Sequence[Clip],
    unknowns: Sequence[str],
    out: Path,
    seed: int = 0,
    starts: int = 16,
    noise: float | None = None,
    window: int | None = None,
    robust: str = "gaussian",
    progress: Progress | None = None,
) -> dict:
    """Identify unknowns that clips share; writes result.json, report.html, and films of every clip and camera.

    Args:
        given: The clips.
        unknowns: NAME, NAME@CLIP or NAME@each, with or without :LOW:HIGH.
        out: The run folder.
        seed: Of the starts.
        starts: Their number.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255.
        window: Frames of a window, to cut one long clip; None: one shot.
        robust: Loss of the residuals.
        progress: Is told what happens.

    Raises:
        InputError: If anything that was given is wrong.
    """
    progress, out = progress or NullProgress(), Path(out)
    if starts < 1:
        raise InputError(f"starts is {starts}; it has to be at least 1.")
    if window is not None and len(given) > 1:
        raise InputError("windows cut one long clip; fit several clips without --window.")
    scenes = [Scene.load(clip.scene) for clip in given]
    shared = SharedSpace(scenes, unknowns) if len(given) > 1 else None
    alone = None if shared else Space(scenes[0], unknowns)
    each = zip(scenes, given, strict=True)
    seen = [from_videos(scene, clip.videos, clip.masks, noise, robust=robust) for scene, clip in each]
    progress.stage("building the model")
    if shared:
        problem = together(scenes, seen, shared)
        parts = problem.problems
    else:
        problem = Problem(model_for(scenes[0], alone), seen[0], alone)  # pyright: ignore[reportArgumentType]
        parts = [problem]
    frames = ", ".join(str(part.frames) for part in seen)
    progress.stage(f"fitting {', '.join(problem.space.names)} to {frames} frames")
    found = solve(
        problem,  # pyright: ignore[reportArgumentType] -- a problem as far as a search needs it
        MultistartConfig(starts=starts),
        seed,
        report=reporting(progress),
        shooting=None if window is None else MultipleShooting(window=window),
    )
    out.mkdir(parents=True, exist_ok=True)
    progress.stage("writing the report")
    films = []
    for k, (clip, part) in enumerate(zip(given, parts, strict=True)):
        films += _shown(out, clip, part, of_clip(part.model.scene, found.values, k + 1), f"_{k + 1}" if shared else "")
    found.save(out)
    title = " and ".join(dict.fromkeys(scene.name for scene in scenes))
    told = [{"scene": str(clip.scene), "videos": {n: str(v) for n, v in clip.videos.items()}} for clip in given]
    content = {**found.result(), "command": "fit", "title": title, "clips": told, "films": films}
    write_json(out / "result.json", content)
    write_report(out)
    progress.done()
    return content


def _shown(out: Path, clip: Clip, part: Problem, values: Mapping[str, float], suffix: str) -> list[dict[str, str]]:
    """Write the scene of a clip, and for each camera the fit beside and over its film; what the report shows."""
    scene, films = part.model.scene, []
    scene.save(out / f"scene{suffix}.yaml")
    with torch.no_grad():
        fitted = part.model.rollout(placed(scene, values), frames=part.frames)
    for camera, path in clip.videos.items():
        ending = suffix + (f"_{camera}" if camera != "camera" else "")
        where = " ".join([*([f"Clip {suffix[1:]}"] if suffix else []), *([camera] if camera != "camera" else [])])
        film = videos.read(path)
        filmed = film.frames[align_frames(film, scene.timing.fps).index]
        image = to_bytes(synthetic.film(scene, fitted, camera))
        mask = synthetic.float_masks(scene, fitted, camera).masks.numpy()
        for kind, frames, text in (
            ("side_by_side", side_by_side(filmed, image), "video, left, and fit, right."),
            ("overlay", overlay(filmed, mask), "outline of the fit over the video."),
        ):
            videos.write_preview(out / f"{kind}{ending}.webm", frames, scene.timing.fps)
            films.append({"file": f"{kind}{ending}.webm", "text": f"{where}: {text}" if where else text.capitalize()})
    return films


def _grouped(words: Sequence[str | Path]) -> list[dict[str, Path]]:
    """Films by camera, a new group where a camera has one already."""
    groups: list[dict[str, Path]] = []
    for word in map(str, words):
        found = None if Path(word).exists() else NAMED.fullmatch(word)
        camera, path = found.groups() if found else ("camera", word)
        if not groups or camera in groups[-1]:
            groups.append({})
        groups[-1][camera] = Path(path)
    return groups
