"""The model of a scene with unknowns, and values of its parameters by name."""

import itertools
import math
from collections.abc import Mapping

import torch

from gradsim.identification.unknowns import Space, Unknown
from gradsim.physics.model import Model, delay_range
from gradsim.physics.system import Values
from gradsim.runtime.limits import max_steps
from gradsim.scene.parameters import parameters, resolve

MAX_SUBSTEPS = 10**6  # substeps of a model that passes the check of its step, whatever it is
CORNERS = 64  # corners of the ranges at which the time step is checked


def model_for(scene, space: Space) -> Model:
    """Model with a time step for every corner of the unknowns' ranges, where the scene leaves it open."""
    offsets = [space.range(k)[1] for k, places in enumerate(space.places) if ("timing.offset", None) in places]
    lead = max(1, math.ceil(max(offsets) * scene.timing.fps)) if offsets else None
    delays = delay_range(scene, space.ranges)
    finest = max(1, min(MAX_SUBSTEPS, int(max_steps() / (2 * scene.timing.frames))))
    first = Model(scene, None if scene.timing.substeps != "auto" else finest, lead=lead, delays=delays)
    if scene.timing.substeps != "auto":
        return first
    ends = list(itertools.islice(itertools.product((0, 1), repeat=len(space)), CORNERS))
    corners = torch.where(torch.tensor(ends) == 1, space.high, space.low)
    return Model(
        scene, substeps=first.recommended_substeps(first.values(space.values(corners))), lead=lead, delays=delays
    )


def parameter_values(scene, numbers: Mapping[str, float]) -> Values:
    """Parameters (1, ...) by name for `Model.rollout`, from values of parameters, components or tied names.

    Raises:
        InputError: On a name that the scene lacks.
    """
    kinds, values = parameters(scene), {}
    for dotted, number in ((name, number) for tied, number in numbers.items() for name in Unknown(tied).names):
        name, index = resolve(scene, dotted)
        values.setdefault(name, torch.tensor(kinds[name].value, dtype=torch.float64)[None].clone())
        values[name][(0,) if index is None else (0, index)] = number
    return values
