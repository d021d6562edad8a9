"""Control: policies that set parameters of a model, and their training from images of a goal."""

from gradsim.control.goals.state import ApproachGoal
from gradsim.control.impulses import RandomImpulses
from gradsim.control.mpc import Mpc, run_mpc
from gradsim.control.observations import ImageObservation, StateObservation
from gradsim.control.plant import Control, Episode, Plant, check_policy
from gradsim.control.policies import Feedback, Gait, PiecewiseConstant, Sinusoids, Spline
from gradsim.control.training.history import History, Iteration
from gradsim.control.training.polyak import Polyak
from gradsim.control.training.randomization import DomainRandomization
from gradsim.control.training.settings import Horizon, TrainingConfig
from gradsim.control.training.train import train, train_truncated
from gradsim.runtime.checkpoint import CheckpointFile

__all__ = [
    "ApproachGoal",
    "CheckpointFile",
    "Control",
    "DomainRandomization",
    "Episode",
    "Feedback",
    "Gait",
    "History",
    "Horizon",
    "ImageObservation",
    "Iteration",
    "Mpc",
    "PiecewiseConstant",
    "Plant",
    "Polyak",
    "RandomImpulses",
    "Sinusoids",
    "Spline",
    "StateObservation",
    "TrainingConfig",
    "check_policy",
    "run_mpc",
    "train",
    "train_truncated",
]
