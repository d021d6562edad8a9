"""What `gradsim compare` does: one video, several models, one folder."""

from pathlib import Path

from gradsim import video as videos
from gradsim.app.report.report import write_report
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.api import model_for, placed
from gradsim.identification.model_selection import compare
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space, Unknown
from gradsim.runtime.atomic import write_json
from gradsim.runtime.progress import NullProgress, Progress, reporting
from gradsim.scene import Scene
from gradsim.visualization.overlay_video import write_films
from gradsim.visualization.residual_video import write_residuals


def run(
    scene_path: Path,
    video: Path,
    mask: Path | None,
    unknowns: list[str],
    models: list[str],
    out: Path,
    seed: int = 0,
    starts: int = 16,
    noise: float | None = None,
    progress: Progress | None = None,
) -> dict:
    """Compare models; writes result.json, report.html and the films of the chosen one.

    Args:
        scene_path: The scene as given, the first model.
        video: The video.
        mask: A mask video, or None to take silhouettes from the colours.
        unknowns: NAME or NAME:LOW:HIGH, of the scene as given.
        models: Names of standard candidates; see `gradsim.identification.model_selection`.
        out: The run folder.
        seed: Of the starts.
        starts: Their number, for each model.
        noise: Standard deviation of a pixel's noise in [0, 1]; None: 1/255.
        progress: Is told what happens.

    Raises:
        InputError: If anything that was given is wrong.
    """
    progress, out = progress or NullProgress(), Path(out)
    scene = Scene.load(scene_path)
    if not models:
        raise InputError('there is no model to compare with: add --without friction, or --model "paper law".')
    evidence = from_video(scene, video, mask, noise)
    found = compare(
        scene,
        unknowns,
        observation=evidence,
        candidates=models,
        plan=MultistartConfig(starts=starts),
        seed=seed,
        report=reporting(progress),
        stage=progress.stage,
    )
    progress.stage("writing the report")
    best, fit = found.best, found.best.fit
    space = Space(best.scene, [Unknown(name, e.low, e.high) for name, e in fit.unknowns.items()])
    fitted = model_for(best.scene, space).rollout(placed(best.scene, fit.values), frames=evidence.frames)
    frames = to_bytes(synthetic.film(best.scene, fitted))
    outline = synthetic.float_masks(best.scene, fitted).masks.numpy()
    out.mkdir(parents=True, exist_ok=True)
    best.scene.save(out / "scene.yaml")
    write_films(out, videos.read(video).frames, frames, outline, scene.timing.fps)
    write_residuals(out, evidence, outline, scene.timing.fps)
    fit.save(out)
    content = {**fit.result(), "comparison": found.result(), "command": "compare", "title": scene.name}
    content["video"] = str(video)
    write_json(out / "result.json", content)
    write_report(out)
    progress.done()
    return content
