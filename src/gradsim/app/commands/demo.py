"""`gradsim demo`: mass, stiffness and friction of a bouncing, sliding cube with a known impulse, from its video.

Fitted to float frames, as a self-consistency check, and to a lossless 8-bit video with noise, read back from disk. Truth
and starts are uniform over the same ranges.
"""

from pathlib import Path

import torch

from gradsim.app.commands.fit_job import write_clip_videos, write_residual_video
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.fit import Fit
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import from_video
from gradsim.identification.observation.labelled_masks import LabelledMasks
from gradsim.identification.scene_models import parameter_values
from gradsim.runtime.atomic import write_json
from gradsim.runtime.progress import NullProgress, Progress, progress_callback
from gradsim.scene import Scene
from gradsim.visualization.player import write_player

UNKNOWNS = ("cube.mass:2:12", "ground.stiffness:2e4:5e5", "ground.friction:0.2:1")
NOISE = 1 / 255  # standard deviation of a pixel, before rounding to 8 bits


def demo(out: Path, seed: int = 0, progress: Progress | None = None) -> dict:
    """Run the demo into a folder.

    Args:
        out: Output folder of video.webm, result.json, history.json and videos of the fit.
        seed: Seed of truth, noise and starts.
        progress: Receives stages and iterations.

    Returns:
        Content of result.json: the fit to float frames under `unknowns`, that to the video under `unknowns_8bit`.
    """
    out, progress = Path(out), progress or NullProgress()
    scene = Scene.library("cube")
    truth = synthetic.draw_truth(scene, UNKNOWNS, seed)
    progress.stage("simulating and rendering the cube")
    model, trajectory = synthetic.simulate(scene, UNKNOWNS, truth)
    clean = synthetic.render_video(scene, trajectory)
    path = synthetic.write_video(out / "video.webm", synthetic.noisy_8bit(clean, NOISE, seed), scene.timing.fps)

    progress.stage("fit to float frames (self-consistency)")
    exact = least_squares(
        scene,
        synthetic.float_masks(scene, trajectory),
        UNKNOWNS,
        seed=seed,
        report=progress_callback(progress),
        model=model,
        stage=progress.stage,
    ).against(truth)
    progress.stage(f"fit to {path.name} (8 bit, noise {NOISE:.4f})")
    observation = from_video(scene, path, noise=NOISE)
    noisy = least_squares(
        scene, observation, UNKNOWNS, seed=seed, report=progress_callback(progress), model=model, stage=progress.stage
    ).against(truth)
    progress.done()
    return save(out, scene, model, observation, exact, noisy)


def save(out: Path, scene, model, observation: Masks | LabelledMasks, exact: Fit, noisy: Fit) -> dict:
    """Write results and videos of both fits."""
    known = {name: e.truth for name, e in noisy.unknowns.items() if e.truth is not None}
    with torch.no_grad():  # rollouts of one world with gradients have kernels of their own
        fitted, truth = (model.rollout(parameter_values(scene, values)) for values in (noisy.values, known))
    observed, mask = write_clip_videos(out, scene, fitted, out / "video.webm")
    write_residual_video(out, observation, fitted, mask, scene.timing.fps)
    write_player(out / "player.html", scene, fitted.scene_surface, observed, truth.scene_surface)
    scene.save(out / "scene.yaml")
    second = noisy.result()
    result = {**exact.result(), "command": "demo", "title": "Mass, stiffness and friction of a cube, from its video"}
    keys = ("unknowns", "status", "chi2_per_n", "starts", "null_directions", "residual_diagnostics", "discretization")
    result |= {f"{key}_8bit": second[key] for key in keys}
    result["z_8bit"] = {name: e.z for name, e in noisy.unknowns.items()}
    result["cpu_seconds"] += second["cpu_seconds"]
    result["wall_seconds"] += second["wall_seconds"]
    result["worst_relative_error"] = synthetic.worst_relative_error(exact)
    noisy.save(out)  # the report shows its history
    write_json(out / "result.json", result)
    return result
