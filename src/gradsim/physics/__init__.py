"""Physics: bodies, forces, contact and rollouts."""

from gradsim.physics.forces.base import Force
from gradsim.physics.forces.custom import CustomForce
from gradsim.physics.gradients import gradients
from gradsim.physics.model import Divergence, Model
from gradsim.physics.trajectory import Trajectory

__all__ = ["CustomForce", "Divergence", "Force", "Model", "Trajectory", "gradients"]
