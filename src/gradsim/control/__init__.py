"""Controllers: policies that set what a model does, and their training from pictures of a goal."""

from gradsim.control.goals.state import Approach
from gradsim.control.impulses import Kicks
from gradsim.control.mpc import Mpc, run_mpc
from gradsim.control.observations import ImageSenses, StateSenses
from gradsim.control.plant import Control, Episode, Plant, check
from gradsim.control.policies import Feedback, Free, Gait, Sinusoids, Spline
from gradsim.control.training.history import History, Iteration
from gradsim.control.training.polyak import Polyak
from gradsim.control.training.randomization import Disturbances
from gradsim.control.training.settings import Horizon, TrainingConfig
from gradsim.control.training.train import train, train_truncated
from gradsim.runtime.checkpoint import CheckpointFile

__all__ = [
    "Approach",
    "CheckpointFile",
    "Control",
    "Disturbances",
    "Episode",
    "Feedback",
    "Free",
    "Gait",
    "History",
    "Horizon",
    "ImageSenses",
    "Iteration",
    "Kicks",
    "Mpc",
    "Plant",
    "Polyak",
    "Sinusoids",
    "Spline",
    "StateSenses",
    "TrainingConfig",
    "check",
    "run_mpc",
    "train",
    "train_truncated",
]
