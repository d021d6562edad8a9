"""`gradsim compare`: several models of one video."""

from collections.abc import Sequence
from pathlib import Path

import torch

from gradsim.app.commands.fit_job import FitJob, require_starts, write_clip_videos
from gradsim.app.job import open_scene
from gradsim.errors import InputError
from gradsim.identification.fit import Fit
from gradsim.identification.model_selection import compare
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.priors import priors_of
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space, Unknown
from gradsim.runtime.progress import CheckpointStore, Progress, progress_callback
from gradsim.visualization.residual_video import write_residuals


class ModelComparison(FitJob):
    """Fits of one clip by the scene as given and by standard candidates; the result is that of the best.

    Args:
        scene: Scene file, the first model.
        video: Video file.
        mask: Mask video; None: silhouettes from the colors.
        unknowns: NAME or NAME:LOW:HIGH, of the scene as given.
        models: Names of standard candidates; see `gradsim.identification.model_selection`.
        seed: Seed of the starts.
        starts: Number of starts of each model.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255.
        priors: As for `compare`.

    Raises:
        InputError: If an argument is wrong.
    """

    command = "compare"

    def __init__(
        self,
        scene: Path,
        video: Path,
        mask: Path | None,
        unknowns: Sequence[str],
        models: Sequence[str],
        seed: int = 0,
        starts: int = 16,
        noise: float | None = None,
        priors: Sequence[str] = (),
    ):
        self.scene, self.video = open_scene(Path(scene)), video
        self.unknowns, self.models, self.seed, self.starts = list(unknowns), list(models), seed, starts
        self.title, self.priors = self.scene.name, list(priors)
        priors_of([self.scene], self.priors)  # raises on a mistake
        if not models:
            raise InputError('no model to compare with; add --without friction, or --model "paper law".')
        require_starts(starts)
        self.observation = from_video(self.scene, video, mask, noise)

    def build(self):
        pass  # `compare` builds a model for each candidate

    def search(self, checkpoint: CheckpointStore, progress: Progress) -> Fit:
        self.comparison = compare(
            self.scene,
            self.unknowns,
            observation=self.observation,
            candidates=self.models,
            plan=MultistartConfig(starts=self.starts),
            seed=self.seed,
            report=progress_callback(progress),
            stage=progress.stage,
            priors=self.priors,
        )
        return self.comparison.best.fit

    def write_videos(self, folder: Path, fit: Fit) -> dict:
        scene = self.comparison.best.scene
        space = Space(scene, [Unknown(name, e.low, e.high) for name, e in fit.unknowns.items()])
        with torch.no_grad():
            fitted = model_for(scene, space).rollout(
                parameter_values(scene, fit.values), frames=self.observation.frames
            )
        scene.save(folder / "scene.yaml")
        _, mask = write_clip_videos(folder, scene, fitted, self.video)
        write_residuals(folder, self.observation, mask, scene.timing.fps)
        return {"video": str(self.video), "comparison": self.comparison.result()}
