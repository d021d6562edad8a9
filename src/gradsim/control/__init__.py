"""Controllers: policies that set what a model does, and their training from pictures of a goal."""

from gradsim.control.checkpoint import Checkpoint
from gradsim.control.disturbances import Disturbances
from gradsim.control.feedback import Feedback
from gradsim.control.history import History, Iteration
from gradsim.control.horizon import Horizon
from gradsim.control.image_senses import ImageSenses
from gradsim.control.matching import check
from gradsim.control.mpc import Mpc, run_mpc
from gradsim.control.plant import Control, Episode, Plant
from gradsim.control.policies import Free, Sinusoids, Spline
from gradsim.control.polyak import Polyak
from gradsim.control.search import Search
from gradsim.control.senses import StateSenses
from gradsim.control.training import train

__all__ = [
    "Checkpoint",
    "Control",
    "Disturbances",
    "Episode",
    "Feedback",
    "Free",
    "History",
    "Horizon",
    "ImageSenses",
    "Iteration",
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
]
