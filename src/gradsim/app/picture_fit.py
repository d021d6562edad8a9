"""`gradsim fit --observe pictures`: outlines and the colors inside of them."""

from dataclasses import replace
from pathlib import Path

import torch
from PIL import Image

from gradsim import video as videos
from gradsim.app.clip_fit import ClipFit
from gradsim.app.job import VIDEOS, FitArguments
from gradsim.app.report.report import VIDEO_CAPTIONS
from gradsim.errors import InputError
from gradsim.identification.colors.film import Film
from gradsim.identification.colors.fit import fit_pictures, require_pictures
from gradsim.identification.estimators import estimator_named
from gradsim.identification.fit import Fit
from gradsim.identification.observation.observability import require_observable
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.runtime.atomic import atomic_path
from gradsim.runtime.parallel import one_thread
from gradsim.runtime.progress import CheckpointStore, Progress
from gradsim.visualization.color_views import color_frames, texture_views

TEXTURE, COLORS = "texture.png", "colors.webm"
CAPTION = "The texture from six sides of the body, from all frames. Gray: no frame shows it."
COLORS_CAPTION = "The video about the bodies; the model inside of their outlines; and four times what is left, gray where nothing is."


class PicturesFit(ClipFit):
    """Fit of outlines and colors of one clip.

    Raises:
        InputError: If an argument is wrong, or colors cannot be compared (`require_pictures`).
    """

    def __init__(self, arguments: FitArguments):
        super().__init__(arguments)
        if arguments.profile:
            raise InputError("--profile is for outlines; leave it out, or leave out --observe pictures.")
        assert arguments.video is not None
        require_pictures(self.scene, self.observation)
        self.film = Film.read(self.scene, arguments.video, arguments.frames, arguments.ignore, arguments.background)

    @one_thread()
    def search(self, checkpoint: CheckpointStore, progress: Progress) -> Fit:
        for text in self.unused:
            progress.stage(text)
        require_observable(self.problem.model, self.observation, self.space.values(self.space.low[None]))
        arguments, nan = self.arguments, float("nan")

        def report(entry: dict) -> None:
            numbers = self.space.numbers(torch.tensor(entry["u"])).tolist()
            entry["values"] = dict(zip(self.space.names, numbers, strict=True))
            values = {name: (value, nan) for name, value in entry["values"].items()}
            progress.frames(entry["frames"], entry["of_frames"], entry.get("chi2_per_n"))
            progress.update(entry["iteration"], entry["cost"], values)

        fit, self.colors, self.observation = fit_pictures(
            self.problem,
            self.film,
            estimator_named(arguments.estimator),
            MultistartConfig(starts=arguments.starts),
            arguments.seed,
            report,
            checkpoint,
            progress.stage,
        )
        return replace(fit, notes=[*fit.notes, *self.unused], estimator=arguments.estimator)

    def write_videos(self, folder: Path, fit: Fit) -> dict:
        entries = super().write_videos(folder, fit)
        with torch.no_grad():
            values = parameter_values(self.scene, fit.values)
            fitted = self.problem.model.rollout(values, frames=self.observation.frames)
        textures, names = self.colors.textures(fitted, self.colors.frames), [body.name for body in self.colors.bodies]
        with atomic_path(folder / TEXTURE) as draft:
            Image.fromarray(texture_views(fitted, names, textures)).save(draft, format="PNG")
        compared = color_frames(self.film.frames, self.colors, textures)
        videos.write_preview(folder / COLORS, compared, self.scene.timing.fps)
        images = [*entries.get("images", []), {"file": TEXTURE, "title": "Texture", "caption": CAPTION}]
        listed = [{"file": COLORS, "text": COLORS_CAPTION}, *({"file": f, "text": VIDEO_CAPTIONS[f]} for f in VIDEOS)]
        return entries | {"images": images, "videos": listed}
