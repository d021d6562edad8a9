"""Image errors of other masses frame by frame; every loss over frames is a mean of some of them."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gradsim.geometry.surface import Surface
from gradsim.losses import cdf
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim_reproduction.landscapes.scenes import GRID_STEP, MASS, TRUE_MASS

WORLDS = 32  # drawn at once
NAME = "cube.mass"
ImageFunction = Callable[[Surface], Tensor]  # to (worlds, frames, ...)
VIEWS: dict[str, Callable[..., ImageFunction]] = {  # of a scene
    "coverage": lambda scene: Silhouettes.of(scene).union,
    "softras": lambda scene: Renderer.of(scene, "softras").alpha,
    "softras_colour": lambda scene: Renderer.of(scene, "softras"),
}
TRANSFORMS = {"pixels": lambda image: image, "cdf": cdf}  # what of an image is compared


def masses(step: float = GRID_STEP) -> np.ndarray:
    """The paper's range [kg], the truth among them."""
    count = round((MASS[1] - MASS[0]) / step)
    return np.linspace(*MASS, count + 1)


def errors(view: ImageFunction, trajectory: Trajectory, truth: Trajectory, compared: str = "pixels") -> np.ndarray:
    """Mean squared difference of each frame of each world from the truth's (worlds, frames).

    Args:
        view: How it is drawn.
        trajectory: All worlds.
        truth: One.
        compared: A key of `TRANSFORMS`.
    """
    transform, parts = TRANSFORMS[compared], []
    with torch.no_grad():
        target = transform(view(truth.surface))
        for vertices in trajectory.surface.vertices.split(WORLDS):
            image = transform(view(Surface(vertices, trajectory.surface.parts)))
            parts.append((image - target).square().flatten(2).mean(2))
    return torch.cat(parts).double().numpy()


def mass_rollouts(model: Model, mass: np.ndarray) -> tuple[Trajectory, Trajectory]:
    """Rollouts of these masses (n,) [kg], and of the true one."""
    batches = [torch.tensor(m, dtype=torch.float64) for m in (mass, [TRUE_MASS])]
    with torch.no_grad():
        trajectories = [model.rollout_unchecked(model.values({NAME: m}), model.scene.timing.frames) for m in batches]
    return trajectories[0], trajectories[1]


def adjoint(model: Model, name: str, view: ImageFunction, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Loss over all frames, and its derivative by a parameter, by the adjoint, at each of its values (n,).

    The true motion is that of the scene as it is.
    """
    with torch.no_grad():
        target = view(model.rollout().surface)
    loss, slope = [], []
    for part in torch.tensor(values).split(WORLDS):
        leaf = part.clone().requires_grad_()
        value = (view(model.rollout({name: leaf}).surface) - target).square().flatten(1).mean(1)
        slope.append(torch.autograd.grad(value.sum(), leaf)[0])
        loss.append(value.detach())
    return torch.cat(loss).numpy(), torch.cat(slope).numpy()


def gradient_errors(values: np.ndarray, loss: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """|slope − secant| over the larger of both, secants from neighbour to neighbour of each inner point (n − 2,).

    Points where both are 0 (the body is out of the image) are left out.
    """
    secant, slope = (loss[2:] - loss[:-2]) / (values[2:] - values[:-2]), slope[1:-1]
    larger = np.maximum(np.abs(secant), np.abs(slope))
    nonzero = larger > 0
    return np.abs(secant - slope)[nonzero] / larger[nonzero]
