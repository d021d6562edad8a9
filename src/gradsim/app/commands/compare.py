"""`gradsim compare`: several models of one video, or of several."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from gradsim.app.commands.fit_job import FitJob, require_starts, write_clip_videos, write_residual_video
from gradsim.app.commands.fit_multi import ClipFiles, write_clip
from gradsim.app.commands.fit_tracks import observed_tracks, points_of, write_track_plots
from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.identification.comparison.candidates import edit_scene, standard_candidate
from gradsim.identification.fit import Fit
from gradsim.identification.model_selection import compare
from gradsim.identification.multi_clip import clip_values
from gradsim.identification.observation.clip import Clip
from gradsim.identification.observation.from_video import AUTO_NOISE
from gradsim.identification.priors import priors_of
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space, Unknown
from gradsim.runtime.progress import CheckpointStore, Progress, progress_callback
from gradsim.scene import Scene, yaml_io


class ModelComparison(FitJob):
    """Fits of one clip or several by the scene as given and by candidates; the result is that of the best.

    Args:
        clips: The clips, whose scenes are the first model.
        unknowns: NAME or NAME:LOW:HIGH, of the scene as given; of several clips also NAME@CLIP and NAME@each.
        models: Names of standard candidates; see `gradsim.identification.comparison.candidates`.
        candidates: File of further candidates, as of `read_candidates`.
        seed: Seed of the starts.
        starts: Number of starts of each model.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255.
        priors: As for `compare`.
        folds: Number of folds of the clips, as for `compare`.
        first_frames: As for `compare`.
        reading: Further arguments of `from_video`, for every clip.
        tracks: Whether the files of the clips are tracks of markers in place of videos.

    Raises:
        InputError: If an argument is wrong.
    """

    command = "compare"

    def __init__(
        self,
        clips: Sequence[ClipFiles],
        unknowns: Sequence[str],
        models: Sequence[str] = (),
        candidates: Path | None = None,
        seed: int = 0,
        starts: int = 16,
        noise: float | str | None = None,
        priors: Sequence[str] = (),
        folds: int | None = None,
        first_frames: int = 0,
        reading: Mapping | None = None,
        tracks: bool = False,
    ):
        if noise == AUTO_NOISE:
            raise InputError(
                f"--noise {AUTO_NOISE} follows from the residuals of one model, and models are compared at one noise; state it, such "
                "as the pixel noise that `gradsim fit` reports."
            )
        self.clips, self.unknowns, self.seed, self.starts = list(clips), list(unknowns), seed, starts
        self.scenes = [open_scene(Path(clip.scene)) for clip in clips]
        self.title = " and ".join(dict.fromkeys(scene.name for scene in self.scenes))
        self.priors, self.folds, self.first_frames = list(priors), folds, first_frames
        priors_of(self.scenes, self.priors)  # raises on a mistake
        self.candidates = {name: standard_candidate(name, self.scenes[0], self.unknowns) for name in models}
        self.candidates |= {} if candidates is None else read_candidates(candidates)
        if not self.candidates:
            raise InputError(
                'no model to compare with; add --without friction, --model "paper law", or --candidates FILE.'
            )
        require_starts(starts)
        self.frames = (reading or {}).get("frames", "")
        self.tracks, robust = tracks, (reading or {}).get("robust", "gaussian")
        self.observations = [
            observed_tracks(scene, clip.videos, noise, robust)
            if tracks
            else Clip(clip.videos, clip.masks, noise, **reading or {}).observe(scene)
            for scene, clip in zip(self.scenes, self.clips, strict=True)
        ]
        for changes in self.candidates.values():
            for scene in self.scenes:
                edit_scene(scene, self.unknowns, changes)  # raises on a mistake

    def build(self):
        pass  # `compare` builds a model for each candidate

    def search(self, checkpoint: CheckpointStore, progress: Progress) -> Fit:
        self.comparison = compare(
            self.scenes,
            self.unknowns,
            observations=self.observations,
            candidates=self.candidates,
            plan=MultistartConfig(starts=self.starts),
            seed=self.seed,
            report=progress_callback(progress),
            stage=progress.stage,
            priors=self.priors,
            folds=self.folds,
            first_frames=self.first_frames,
        )
        return self.comparison.best.fit

    def write_videos(self, folder: Path, fit: Fit) -> dict:
        entries = {"comparison": self.comparison.result()}
        if self.tracks:
            return entries | self._write_tracks(folder, fit)
        if len(self.clips) == 1 and self.clips[0].is_single_camera:
            return entries | {"video": str(self._write_single(folder, fit))}
        captions = []
        for k, (clip, scene) in enumerate(zip(self.clips, self.comparison.best.scenes, strict=True), 1):
            part = Problem(
                model_for(scene, self._space(scene, fit, k)), self.observations[k - 1], self._space(scene, fit, k)
            )
            captions += write_clip(folder, clip, part, clip_values(scene, fit.values, k), k, self.frames)
        clips = [{"scene": str(c.scene), "videos": {n: str(v) for n, v in c.videos.items()}} for c in self.clips]
        return entries | {"clips": clips, "videos": captions}

    def _write_tracks(self, folder: Path, fit: Fit) -> dict:
        """Plots of all tracks with the chosen model."""
        images, several = [], len(self.clips) > 1
        for k, (scene, observation) in enumerate(zip(self.comparison.best.scenes, self.observations, strict=True), 1):
            values = parameter_values(scene, clip_values(scene, fit.values, k))
            with torch.no_grad():
                fitted = model_for(scene, self._space(scene, fit, k)).rollout(values, frames=observation.frames)
                images += write_track_plots(
                    folder, points_of(observation), fitted, scene.timing.fps, k if several else 0
                )
            scene.save(folder / (f"scene_{k}.yaml" if several else "scene.yaml"))
        tracks = [str(path) for clip in self.clips for path in clip.videos.values()]
        return {"tracks": ", ".join(tracks), "images": images}

    def _write_single(self, folder: Path, fit: Fit) -> Path:
        """Videos of one clip of one camera; returns the path of its video."""
        scene, (clip,), (observation,) = self.comparison.best.scene, self.clips, self.observations
        video = clip.videos["camera"]
        with torch.no_grad():
            model = model_for(scene, self._space(scene, fit, 1))
            fitted = model.rollout(
                parameter_values(scene, clip_values(scene, fit.values, 1)), frames=observation.frames
            )
        scene.save(folder / "scene.yaml")
        _, mask = write_clip_videos(folder, scene, fitted, video, self.frames)
        write_residual_video(folder, observation, fitted, mask, scene.timing.fps)  # pyright: ignore[reportArgumentType] -- one camera
        return video

    def _space(self, scene: Scene, fit: Fit, clip: int) -> Space:
        """The unknowns of a clip."""
        ranges = {label: (e.low, e.high) for label, e in fit.unknowns.items()}
        low, high = (clip_values(scene, {n: pair[k] for n, pair in ranges.items()}, clip) for k in (0, 1))
        return Space(scene, [Unknown(name, low[name], high[name]) for name in low])


def read_candidates(path: Path) -> dict[str, dict]:
    """Candidates by name from a YAML file: changes of the scene, and `unknowns` that are solved for in addition.

    Raises:
        InputError: If the file cannot be read, or is not a mapping of mappings.
    """
    content = yaml_io.read(path, "file of candidates")
    if not isinstance(content, dict) or not content or not all(isinstance(c, dict) and c for c in content.values()):
        raise InputError(
            f"the candidates {path} are not a mapping of names to changes, such as `no friction: {{ground.friction: 0}}` or "
            "`drag: {unknowns: [ball.drag:0.01:1]}`."
        )
    for name, changes in content.items():
        added = changes.get("unknowns", [])
        if not isinstance(added, list) or not all(isinstance(text, str) for text in added):
            raise InputError(f"`unknowns` of the candidate `{name}` in {path} are not a list of NAME:LOW:HIGH.")
    return {str(name): dict(changes) for name, changes in content.items()}
