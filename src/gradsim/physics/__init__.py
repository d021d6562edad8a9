"""What moves: one file for each law."""

from gradsim.physics.model import Divergence, Model
from gradsim.physics.trajectory import Trajectory

__all__ = ["Divergence", "Model", "Trajectory"]
