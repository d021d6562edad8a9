"""Controllers: policies that set what a model does, and their training from pictures of a goal."""

from gradsim.control.checkpoint import Checkpoint
from gradsim.control.disturbances import Disturbances
from gradsim.control.feedback import Feedback
from gradsim.control.history import History, Iteration
from gradsim.control.horizon import Horizon
from gradsim.control.matching import check
from gradsim.control.policies import Free, Sinusoids, Spline
from gradsim.control.polyak import Polyak
from gradsim.control.search import Search
from gradsim.control.training import train

__all__ = [
    "Checkpoint",
    "Disturbances",
    "Feedback",
    "Free",
    "History",
    "Horizon",
    "Iteration",
    "Polyak",
    "Search",
    "Sinusoids",
    "Spline",
    "check",
    "train",
]
