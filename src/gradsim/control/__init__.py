"""Controllers: policies that set what a model does, and their training from pictures of a goal."""

from gradsim.control.approach import Approach
from gradsim.control.checkpoint import Checkpoint
from gradsim.control.disturbances import Disturbances
from gradsim.control.feedback import Feedback
from gradsim.control.gait import Gait
from gradsim.control.history import History, Iteration
from gradsim.control.horizon import Horizon
from gradsim.control.image_senses import ImageSenses
from gradsim.control.kicks import Kicks
from gradsim.control.matching import check
from gradsim.control.mpc import Mpc, run_mpc
from gradsim.control.plant import Control, Episode, Plant
from gradsim.control.policies import Free, Sinusoids, Spline
from gradsim.control.polyak import Polyak
from gradsim.control.search import Search
from gradsim.control.senses import StateSenses
from gradsim.control.training import train
from gradsim.control.truncated import train_truncated

__all__ = [
    "Approach",
    "Checkpoint",
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
    "Search",
    "Sinusoids",
    "Spline",
    "StateSenses",
    "check",
    "run_mpc",
    "train",
    "train_truncated",
]
