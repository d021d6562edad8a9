"""What moves: one file for each law."""

from gradsim.physics.acting import Acting
from gradsim.physics.force import Force
from gradsim.physics.gradients import gradients
from gradsim.physics.model import Divergence, Model
from gradsim.physics.trajectory import Trajectory

__all__ = ["Acting", "Divergence", "Force", "Model", "Trajectory", "gradients"]
