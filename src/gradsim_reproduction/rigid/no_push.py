"""The same fit with and without a known force: mass is a scale, and the fit has to say so.

In the paper's law the motion depends on k_e/m, k_d/m, k_f/m and μ alone when no force is known, so the null direction
over (log m, log k_e, log k_d, log k_f, log μ) is (½, ½, ½, ½, 0).
"""

import math

import numpy as np

from gradsim.app.figures import figure
from gradsim.errors import Status
from gradsim.geometry.image_io import to_bytes
from gradsim.identification import synthetic
from gradsim.identification.api import least_squares
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Space
from gradsim.runtime.progress import progress_callback
from gradsim.scene import Scene
from gradsim.visualization.overlay_video import write_videos
from gradsim.visualization.player import write_player
from gradsim_reproduction.runner import Outcome, Run, experiment

UNKNOWNS = (
    "cube.mass:2:12",
    "ground.stiffness:2e4:5e5",
    "ground.damping:1:200",
    "ground.friction_stiffness:1:200",
    "ground.friction:0.2:1",
)
EXPECTED = np.array([0.5, 0.5, 0.5, 0.5, 0.0])


def scenes() -> tuple[Scene, Scene]:
    """The cube in the paper's contact law, with its push, and without it but with a known start velocity."""
    pushed = Scene.library("cube_paper")
    content = pushed.model_dump(exclude_unset=True)
    content["bodies"]["cube"]["pushes"] = []
    content["bodies"]["cube"]["velocity"] = [1.0, 0.3, 0.0]
    return pushed, Scene.model_validate(content)


@experiment("no-push", "Mass without a known force")
def no_push(run: Run) -> Outcome:
    """Fit with and without a known push; writes videos, player.html and scene.yaml. Quick: 8 starts instead of 16."""
    plan, fits = MultistartConfig(starts=8 if run.quick else 16), {}
    for name, scene in zip(("with_push", "without_push"), scenes(), strict=True):
        truth = synthetic.draw_truth(scene, UNKNOWNS, run.seed)
        model = model_for(synthetic.own_steps(scene), Space(scene, UNKNOWNS))
        trajectory = model.rollout(parameter_values(scene, truth))
        run.progress.stage(name.replace("_", " "))
        observation, report = synthetic.float_masks(scene, trajectory), progress_callback(run.progress)
        fit = least_squares(scene, observation, UNKNOWNS, plan, run.seed, report=report, model=model)
        fits[name] = fit.against(truth)
        if name == "without_push":
            frames = to_bytes(synthetic.render_video(scene, trajectory))
            fitted = model.rollout(parameter_values(scene, fits[name].values))
            fitted_frames = to_bytes(synthetic.render_video(scene, fitted))
            mask = synthetic.float_masks(scene, fitted).masks.numpy()
            write_videos(run.out, frames, fitted_frames, mask, scene.timing.fps)
            write_player(run.out / "player.html", scene, fitted.scene_surface, frames, trajectory.scene_surface)
            scene.save(run.out / "scene.yaml")
    free, pushed = fits["without_push"], fits["with_push"]
    null = np.zeros(5)
    if free.null_directions:
        null = np.array([free.null_directions[0].combination[name] for name in free.unknowns])
    error = float(min(np.linalg.norm(null - EXPECTED), np.linalg.norm(null + EXPECTED)))
    answered = pushed.status == Status.OK and synthetic.worst_relative_error(pushed) < 1e-4
    figures = {
        "flagged": figure(float(free.status == Status.UNIDENTIFIABLE), goal=1, ok=free.status == Status.UNIDENTIFIABLE),
        "null_direction_error": figure(error, goal=1e-3, ok=error < 1e-3),
        "answered_with_push": figure(float(answered), goal=1, ok=answered),
        "worst_relative_error_with_push": figure(synthetic.worst_relative_error(pushed), goal=1e-4, ok=answered),
        "friction_error_without_push": figure(_relative(free, "ground.friction"), goal=1e-4),
    }
    free.save(run.out)
    result = {**free.result(), "unknowns_with_push": pushed.result()["unknowns"], "status_with_push": pushed.status}
    return {**result, "starts_with_push": pushed.starts}, figures


def _relative(fit, name: str) -> float:
    estimate = fit.unknowns[name]
    return abs(estimate.value / estimate.truth - 1) if estimate.truth else math.nan
