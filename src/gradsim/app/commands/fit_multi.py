"""`gradsim fit` of several clips, of several cameras, or of a long clip in windows.

On the command line a video is PATH, of the first camera, or CAMERA=PATH; a video of a camera that has one already begins
the next clip.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from gradsim.app.commands.fit_job import FitJob, require_starts, write_clip_videos
from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.identification.api import solve
from gradsim.identification.estimators import LEAST_SQUARES, estimator_named
from gradsim.identification.fit import Fit
from gradsim.identification.long_clip import MultipleShooting
from gradsim.identification.multi_clip import SharedSpace, clip_values, joint_problem
from gradsim.identification.observation.clip import Clip
from gradsim.identification.observation.from_video import AUTO_NOISE
from gradsim.identification.priors import priors_of
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.uncertainty.discretization import at_answer
from gradsim.identification.unknowns import Space
from gradsim.runtime.progress import CheckpointStore, Progress, progress_callback

CAMERA_VIDEO = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)=(.+)")


@dataclass(frozen=True)
class ClipFiles:
    """Files of a clip.

    Args:
        scene: Scene file.
        videos: Video by camera name.
        masks: Mask video by camera name, for some of them.
    """

    scene: Path
    videos: Mapping[str, Path]
    masks: Mapping[str, Path] = field(default_factory=dict)

    @property
    def is_single_camera(self) -> bool:
        """True if the only video is that of the first camera."""
        return list(self.videos) == ["camera"] and list(self.masks) in ([], ["camera"])


def parse_clips(
    scenes: Sequence[Path], videos: Sequence[str | Path], masks: Sequence[str | Path] = ()
) -> list[ClipFiles]:
    """Clips from command-line arguments.

    Args:
        scenes: Scene files, one for each clip or one for all.
        videos: PATH or CAMERA=PATH.
        masks: Mask videos in the same form; the last clips may have none.

    Raises:
        InputError: If no video is given, or the numbers of scenes, videos and masks do not match.
    """
    clip_videos, clip_masks = _by_clip(videos), _by_clip(masks)
    count = len(clip_videos)
    if not count:
        raise InputError("no video given; add --video VIDEO, or --video FRONT side=SIDE for two cameras.")
    if len(scenes) not in (1, count) or len(clip_masks) > count:
        raise InputError(
            f"there are {len(scenes)} scenes, videos of {count} clips and masks of {len(clip_masks)}; give one of each "
            "for every clip, or one scene for all."
        )
    clip_scenes = list(scenes) * (count if len(scenes) == 1 else 1)
    clip_masks += [{}] * (count - len(clip_masks))
    return [ClipFiles(*files) for files in zip(clip_scenes, clip_videos, clip_masks, strict=True)]


class MultiClipFit(FitJob):
    """Fit of unknowns that clips share.

    Args:
        clips: The clips.
        unknowns: NAME, NAME@CLIP or NAME@each, with or without :LOW:HIGH.
        seed: Seed of the starts.
        starts: Number of starts.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255.
        window: Frames per window of multiple shooting, for one long clip; None: single shooting.
        reading: Further arguments of `from_video`, for every clip.
        estimator: Name of the estimator, as for `identify`.
        priors: As for `identify_many`.
        known_numbers: Examine what errors of known numbers would do.
        discrepancy: Add error bars of a model with a discrepancy, and of numbers that scatter between clips.

    Raises:
        InputError: If an argument is wrong.
    """

    def __init__(
        self,
        clips: Sequence[ClipFiles],
        unknowns: Sequence[str],
        seed: int = 0,
        starts: int = 16,
        noise: float | str | None = None,
        window: int | None = None,
        reading: Mapping | None = None,
        estimator: str = LEAST_SQUARES,
        priors: Sequence[str] = (),
        known_numbers: bool = True,
        discrepancy: bool = False,
    ):
        require_starts(starts)
        estimator_named(estimator)  # raises on an unknown name
        if window is not None and len(clips) > 1:
            raise InputError("--window is for one long clip; leave it out, or fit one clip.")
        if window is not None and discrepancy:
            raise InputError("--discrepancy is for fits in one shot; remove --window or --discrepancy.")
        if window is not None and estimator != LEAST_SQUARES:
            raise InputError(f"--window has an estimator of its own; remove --window or --estimator {estimator}.")
        if noise == AUTO_NOISE and (len(clips) > 1 or window is not None):
            raise InputError(f"--noise {AUTO_NOISE} is for one clip of one camera, in one shot; state the noise.")
        self.frames = (reading or {}).get("frames", "")
        if window is not None and self.frames:
            raise InputError("--frames is for fits in one shot; cut the clip, or remove --window.")
        self.clips, self.seed, self.starts, self.window = list(clips), seed, starts, window
        self.scenes = [open_scene(clip.scene) for clip in clips]
        self.estimator, self.known_numbers, self.discrepancy = estimator, known_numbers, discrepancy
        self.title = " and ".join(dict.fromkeys(scene.name for scene in self.scenes))
        stated, self.unused = priors_of(self.scenes, priors)
        if len(clips) > 1:
            self.space = SharedSpace(self.scenes, unknowns, stated)
        else:
            self.space = Space(self.scenes[0], unknowns, priors=stated)
        self.observations = [
            Clip(clip.videos, clip.masks, noise, **reading or {}).observe(scene)
            for scene, clip in zip(self.scenes, self.clips, strict=True)
        ]

    def build(self):
        if isinstance(self.space, SharedSpace):
            self.problem = joint_problem(self.scenes, self.observations, self.space)
            self.parts = self.problem.problems
        else:
            model = model_for(self.scenes[0], self.space)
            self.problem = Problem(model, self.observations[0], self.space)
            self.parts = [self.problem]

    def search(self, checkpoint: CheckpointStore, progress: Progress) -> Fit:
        frames = ", ".join(str(observation.frames) for observation in self.observations)
        progress.stage(f"fitting {', '.join(self.space.names)} to {frames} frames")
        fit = solve(
            self.problem,  # pyright: ignore[reportArgumentType] -- a joint problem has what a search needs
            MultistartConfig(starts=self.starts),
            self.seed,
            report=progress_callback(progress),
            stage=progress.stage,
            fraction=progress.fraction,
            shooting=None if self.window is None else MultipleShooting(window=self.window),
            estimator=self.estimator,
            known_numbers=self.known_numbers,
            discrepancy=self.discrepancy,
        )
        fit = replace(fit, notes=[*fit.notes, *self.unused])
        answer = at_answer(self.problem, fit.discretization)  # pyright: ignore[reportArgumentType]
        self.parts = answer.problems
        return fit

    def write_videos(self, folder: Path, fit: Fit) -> dict:
        is_shared = len(self.clips) > 1
        captions = []
        for k, (clip, part) in enumerate(zip(self.clips, self.parts, strict=True), 1):
            values = clip_values(part.model.scene, fit.values, k)
            captions += write_clip(folder, clip, part, values, k if is_shared else None, self.frames)
        clips = [{"scene": str(c.scene), "videos": {n: str(v) for n, v in c.videos.items()}} for c in self.clips]
        return {"clips": clips, "videos": captions}


def write_clip(
    folder: Path, clip: ClipFiles, part: Problem, values: Mapping[str, float], number: int | None, frames: str = ""
) -> list[dict[str, str]]:
    """Write the scene of a clip and the videos of its cameras; returns their captions."""
    scene, suffix = part.model.scene, f"_{number}" if number else ""
    scene.save(folder / f"scene{suffix}.yaml")
    with torch.no_grad():
        fitted = part.model.rollout(parameter_values(scene, values), frames=part.frames)
    captions = []
    for camera, path in clip.videos.items():
        further = [camera] if camera != "camera" else []
        ending = "_".join([suffix, *further])
        source = " ".join([*([f"Clip {number}"] if number else []), *further])
        write_clip_videos(folder, scene, fitted, path, frames, camera, ending)
        for kind, text in (
            ("side_by_side", "video, left, and fit, right."),
            ("overlay", "outline of the fit over the video."),
        ):
            caption = f"{source}: {text}" if source else text.capitalize()
            captions.append({"file": f"{kind}{ending}.webm", "text": caption})
    return captions


def _by_clip(texts: Sequence[str | Path]) -> list[dict[str, Path]]:
    """Videos by camera, of each clip; a camera that has a video already begins the next clip."""
    clips: list[dict[str, Path]] = []
    for text in map(str, texts):
        match = None if Path(text).exists() else CAMERA_VIDEO.fullmatch(text)
        camera, path = match.groups() if match else ("camera", text)
        if not clips or camera in clips[-1]:
            clips.append({})
        clips[-1][camera] = Path(path)
    return clips
