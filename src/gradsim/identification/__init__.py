"""Identification: physical parameters from video, with error bars and a verdict."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOME = {  # public name: where it lives; imported when first used, since each has imports of its own
    "Clip": "gradsim.identification.observation.clip",
    "Comparison": "gradsim.identification.model_selection",
    "Estimate": "gradsim.identification.fit",
    "Explanation": "gradsim.identification.gradients.api",
    "Field": "gradsim.identification.fields.fields",
    "FieldFit": "gradsim.identification.fields.fit",
    "Fit": "gradsim.identification.fit",
    "Images": "gradsim.identification.observation.images",
    "JointLog": "gradsim.identification.observation.joint_log",
    "LabelledMasks": "gradsim.identification.observation.labelled_masks",
    "Masks": "gradsim.identification.observation.base",
    "MultiView": "gradsim.identification.observation.multi_view",
    "MultipleShooting": "gradsim.identification.long_clip",
    "MultistartConfig": "gradsim.identification.solvers.multistart",
    "Points": "gradsim.identification.observation.points",
    "Prior": "gradsim.identification.priors",
    "Smooth": "gradsim.identification.fields.fields",
    "States": "gradsim.identification.observation.base",
    "Unknown": "gradsim.identification.unknowns",
    "Vertices": "gradsim.identification.observation.vertices",
    "compare": "gradsim.identification.model_selection",
    "descend": "gradsim.identification.solvers.gradient_descent",
    "explain_gradients": "gradsim.identification.gradients.api",
    "identify": "gradsim.identification.api",
    "identify_fields": "gradsim.identification.fields.api",
    "identify_many": "gradsim.identification.multi_clip",
    "least_squares": "gradsim.identification.api",
    "read_tracks": "gradsim.identification.observation.tracks",
}

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


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
