"""Observation modes of a trajectory with known truth: float silhouettes, 8-bit video, another renderer, or poses.

float     silhouettes in double precision: what is lost on the way there and back
8bit      silhouettes from 8-bit video with noise of σ = 1/255: whether the error bars are right
foreign   silhouettes by another renderer, of a motion with four times the steps
states    place and orientation of the body at every frame: 3-D supervision (the paper's "diffphysics")
"""

from collections.abc import Mapping

import torch

from gradsim.identification import synthetic
from gradsim.identification.observation.base import Observation, States
from gradsim.identification.scene_models import parameter_values
from gradsim.physics.model import Model
from gradsim.scene import Scene

FINER = 4  # times more substeps in the targets of `foreign`
PLACE, ANGLE = 1e-3, 1e-2  # [m], [rad] nominal noise of poses that are known exactly


def observe(scene: Scene, truth: Mapping[str, float], model: Model, mode: str, seed: int) -> Observation:
    """A scene with a rigid body, `body`, as it is seen with the true values.

    Args:
        scene: Scene known to the fit.
        truth: True values of the unknowns, by name.
        model: The scene's.
        mode: One of the four above.
        seed: Seed of the noise.
    """
    source = Model(scene, substeps=FINER * model.substeps) if mode == "foreign" else model
    with torch.no_grad():
        trajectory = source.rollout(parameter_values(scene, truth))
    if mode == "float":
        return synthetic.float_masks(scene, trajectory)
    if mode == "8bit":
        return synthetic.noisy_masks(scene, trajectory, "body", seed)
    if mode == "foreign":
        return synthetic.foreign_masks(scene, trajectory)
    poses = trajectory["body"]
    return States("body", poses["x"][0], poses["q"][0], PLACE, ANGLE, exact=True)
