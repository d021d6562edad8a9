"""Identification: physical parameters from video, with error bars and a verdict."""

from gradsim.identification.api import identify, least_squares
from gradsim.identification.fields.api import identify_fields
from gradsim.identification.fields.fields import Field, Smooth
from gradsim.identification.fields.fit import FieldFit
from gradsim.identification.fit import Estimate, Fit
from gradsim.identification.gradients.api import Explanation, explain_gradients
from gradsim.identification.long_clip import MultipleShooting
from gradsim.identification.model_selection import Comparison, compare
from gradsim.identification.multi_clip import identify_many
from gradsim.identification.observation.base import Masks, States
from gradsim.identification.observation.clip import Clip
from gradsim.identification.observation.images import Images
from gradsim.identification.observation.joint_log import JointLog
from gradsim.identification.observation.labelled_masks import LabelledMasks
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.observation.points import Points
from gradsim.identification.observation.tracks import read_tracks
from gradsim.identification.observation.vertices import Vertices
from gradsim.identification.priors import Prior
from gradsim.identification.solvers.gradient_descent import descend
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.identification.unknowns import Unknown

__all__ = [
    "Clip",
    "Comparison",
    "Estimate",
    "Explanation",
    "Field",
    "FieldFit",
    "Fit",
    "Images",
    "JointLog",
    "LabelledMasks",
    "Masks",
    "MultiView",
    "MultipleShooting",
    "MultistartConfig",
    "Points",
    "Prior",
    "Smooth",
    "States",
    "Unknown",
    "Vertices",
    "compare",
    "descend",
    "explain_gradients",
    "identify",
    "identify_fields",
    "identify_many",
    "least_squares",
    "read_tracks",
]
