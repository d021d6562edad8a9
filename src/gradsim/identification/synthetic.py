"""Made-up videos with a known truth, which the estimators never see.

Truths and starts are drawn uniformly over the same ranges, from different random streams.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim import video as videos
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import NOMINAL_NOISE, QUANTIZATION_NOISE
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.reference import scanline
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.video import masks as segmentation

TRUTH_STREAM = 1000  # added to the seed for truths, so that starts are drawn from another stream


def draw_truth(scene, unknowns: Sequence[str], seed: int) -> dict[str, float]:
    """Values of the unknowns, uniform over their ranges."""
    space = Space(scene, unknowns)
    numbers = space.numbers(space.draw(np.random.default_rng(TRUTH_STREAM + seed), 1))[0]
    return dict(zip(space.names, numbers.tolist(), strict=True))


def own_steps(scene: Scene) -> Scene:
    """The scene of videos that are simulated with its own steps: fits do not ask what finer ones would change."""
    return scene.model_copy(update={"timing": scene.timing.model_copy(update={"tolerance": math.inf})})


def default_steps(scene: Scene) -> Scene:
    """The scene with the default integrator and automatic steps, for videos that were not simulated with its own."""
    timing = {"integrator": "auto", "substeps": "auto"}
    return scene.model_copy(update={"timing": scene.timing.model_copy(update=timing)})


def simulate(scene, unknowns: Sequence[str], truth: Mapping[str, float]) -> tuple[Model, Trajectory]:
    """The motion with the true values, in the model that a fit of these unknowns uses."""
    model = model_for(scene, Space(scene, unknowns))
    with torch.no_grad():
        return model, model.rollout(parameter_values(scene, truth))


def float_masks(scene, trajectory: Trajectory, camera: str = "camera") -> Masks:
    """Silhouettes in double precision as a camera of the scene sees them; their σ is a nominal 1/255."""
    silhouettes = Silhouettes.of(scene, camera)
    with torch.no_grad():
        image = silhouettes.union(trajectory.surface, trajectory.values)[0]
    return Masks(image, 1 / 255, silhouettes)


def render_video(scene, trajectory: Trajectory, camera: str = "camera") -> Tensor:
    """Flat-coloured frames (frames, height, width, 3) in [0, 1], as a camera of the scene sees them.

    By exact coverage, which takes a body as wholly before or behind another; a ground that is visible is neither, and
    is drawn by `Renderer`, or, by a camera with a lens or shutter, not at all.
    """
    grounds = any(ground.visible for ground in scene.grounds.values())
    silhouettes = Silhouettes.of(scene, camera)
    surface = trajectory.scene_surface
    if not grounds:
        draw = silhouettes.image
    elif silhouettes.camera.optics is None and silhouettes.camera.poses is None:
        draw = Renderer.of(scene, camera=camera, law="colour")
    else:
        draw, surface = silhouettes.image, trajectory.surface
    with torch.no_grad():
        return draw(surface, trajectory.values)[0].permute(0, 2, 3, 1)


def noisy_masks(scene, trajectory: Trajectory, body: str, seed: int) -> Masks:
    """Masks from an 8-bit video with noise of σ = 1/255, by the color of a body."""
    frames = noisy_8bit(render_video(scene, trajectory), NOMINAL_NOISE, seed)
    colour, background = (np.array(c) for c in (scene.bodies[body].colour, scene.background))
    alpha = segmentation.alpha_from_flat_colors(frames, colour, background)
    sigma = math.hypot(NOMINAL_NOISE, QUANTIZATION_NOISE) / float(np.linalg.norm(colour - background))
    return Masks(torch.tensor(alpha), sigma, Silhouettes.of(scene))


def foreign_masks(scene, trajectory: Trajectory) -> Masks:
    """Silhouettes by another renderer (`foreign`)."""
    surface, (K, R, t) = trajectory.surface, scene.camera.matrices()
    bodies = [surface.vertices[0][:, p.vertices].detach().numpy() for p in surface.parts]
    faces = [p.faces.numpy() for p in surface.parts]
    image = scanline.masks(bodies, faces, K, R, t, scene.camera.size)
    return Masks(torch.tensor(image), NOMINAL_NOISE, Silhouettes.of(scene))


def noisy_8bit(frames: Tensor, sigma: float, seed: int) -> np.ndarray:
    """Frames with Gaussian noise of standard deviation sigma, rounded to 8 bits."""
    noise = np.random.default_rng(2 * TRUTH_STREAM + seed).standard_normal(frames.shape) * sigma
    return np.clip(np.rint((frames.numpy() + noise) * 255), 0, 255).astype(np.uint8)


def write_video(path: Path, frames: np.ndarray, fps: float) -> Path:
    """Write a lossless video; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    videos.write(path, frames, fps)
    return path


def worst_relative_error(fit) -> float:
    """Largest |value/truth − 1| over the unknowns."""
    return max(abs(e.value / e.truth - 1) if e.truth else math.nan for e in fit.unknowns.values())
