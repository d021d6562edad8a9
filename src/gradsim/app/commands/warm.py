"""`gradsim doctor --warm`: compiles what fits of scenes need, before they need it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from gradsim.app.commands.doctor import cached_modules
from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.identification.observation.base import Masks, Residual
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.runtime.parallel import one_thread, run_jobs
from gradsim.scene import Scene
from gradsim.scene.parameters import parameters

FRAMES = 2  # of a clip: kernels are the same for any number
STARTS = 16  # as many worlds as a fit has by default, which choose the width of the kernels


def warm(
    scenes: Sequence[str] = (),
    workers: int | None = None,
    report: Callable[[int, int], None] = lambda finished, total: None,
) -> int:
    """Compile the kernels of motion, its tangents and adjoints, and of outlines, for scenes; those that are compiled are left.

    Args:
        scenes: Names in the library, or scene files; none: the whole library.
        workers: Number of processes that compile; by default the number of cores.
        report: Called with the number of finished scenes and their total.

    Returns:
        Number of modules that were not in the cache before.

    Raises:
        InputError: If a scene is not found or wrong, before anything is compiled.
    """
    names = list(scenes) or Scene.library_names()
    for name in names:
        if load(name).camera is None:
            raise InputError(f"scene {name} has no camera, so that no film of it is fitted; give it one.")
    before = cached_modules()
    engine = "serial" if len(names) == 1 else "processes"
    for _ in run_jobs(compile_kernels, names, engine, None if engine == "serial" else workers, report=report):
        pass
    return len(cached_modules() - before)


def load(name: str) -> Scene:
    """The scene of a file, or of the library."""
    return Scene.load(Path(name)) if Path(name).suffix else Scene.library(name)


@one_thread()
def compile_kernels(name: str) -> str:
    """Take one step of a fit of the scene: costs of all starts by pixels and by sums of them, a linearization, a gradient by adjoints, and a picture."""
    scene = load(name)
    problem = problem_of(scene)
    u = problem.space.draw(np.random.default_rng(0), STARTS)
    residuals: tuple[Residual, ...] = "pixels", "cdf"
    for residual in residuals:
        problem.cost(u, FRAMES, residual)
    problem.linearize(u, FRAMES)
    one = u[:1].requires_grad_()
    problem.sum_of_squares(one)[0].sum().backward()
    return name


def problem_of(scene: Scene) -> Problem:
    """The fit of the first parameter that can be fitted to the scene's outlines."""
    for name in parameters(scene):
        try:
            space = Space(scene, [name])
            model = model_for(scene, space)
            return Problem(model, outlines(scene, model).within(space.ranges), space)
        except InputError:  # no range of its own, or nothing depends on it
            continue
    raise InputError("no parameter of the scene has a range of its own; give the scene masses or stiffnesses above 0.")


def outlines(scene: Scene, model: Model) -> Masks:
    """Outlines of the scene's own motion, of which a picture is drawn, too."""
    with torch.no_grad():
        trajectory = model.rollout(parameter_values(scene, {}), frames=FRAMES)
        synthetic.render_video(scene, trajectory)
    return synthetic.float_masks(scene, trajectory)
