"""What gradSim is compared with: rows of the paper's tables other than its own, each by a search of its own."""

from gradsim.experiments.baselines.bullet_landscape import pybullet_landscape

__all__ = ["pybullet_landscape"]
