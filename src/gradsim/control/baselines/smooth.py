"""A controller of few numbers for a body of many elements: splines of place and time.

    u_i(t) = Σ_j w_j(X_i) tanh(s_j(t))

w_j are linear B-splines (hats) over a grid that spans the body at rest; they are not negative and add up to 1 at each
element's centre X_i, so that u stays within [-1, 1]. s_j are cubic B-splines of time (`policies.Spline`).
"""

import itertools
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gradsim.control.policies import Spline
from gradsim.physics.soft_body import SoftBody

if TYPE_CHECKING:
    from gradsim.control.plant import Plant

ROUNDING = 1e-9  # a share below it is none
FLAT = 1e-3  # extent over the largest below which a body has none along an axis


class Smooth(nn.Module):
    """Such a controller.

    Args:
        plant: What it is for. Controls that are not numbers of elements of a soft body keep one curve for each output.
        cells: Of the grid along each axis.
        knots: Of each curve, at least 4.
        seed: Of the start numbers.
    """

    feedback = False

    def __init__(self, plant: "Plant", cells: int = 2, knots: int = 6, seed: int = 0):
        super().__init__()
        shares = shares_of(plant, cells)
        self.register_buffer("shares", shares, persistent=False)
        duration = plant.model.scene.timing.frames / plant.model.scene.timing.fps
        self.spline = Spline(shares.shape[1], knots, duration, seed)

    def forward(self, times: Tensor, observation: Tensor | None = None) -> Tensor:
        return self.spline(times) @ self.shares.T


def shares_of(plant: "Plant", cells: int = 2) -> Tensor:
    """w (outputs, modes) of all controls; arguments as for `Smooth`."""
    blocks = []
    for name, count in plant.outputs_of.items():
        places = centres(plant.model, name, count)
        blocks.append(torch.eye(count, dtype=torch.float64) if places is None else hats(places, cells))
    return torch.block_diag(*blocks)


def hats(places: Tensor, cells: int) -> Tensor:
    """Shares (n, modes) of the points of a grid at places (n, 3); rows add up to 1. Points without a share are left out."""
    low, extent = places.amin(0), places.amax(0) - places.amin(0)
    axes = []
    for k in (extent > FLAT * extent.max()).nonzero()[:, 0].tolist():
        where = (places[:, k] - low[k]) / extent[k] * cells
        points = torch.arange(cells + 1, dtype=places.dtype)
        axes.append((1 - (where[:, None] - points).abs()).clamp(min=0))
    columns = [torch.stack(own).prod(0) for own in itertools.product(*(axis.unbind(1) for axis in axes))]
    shares = torch.stack(columns, 1).double()
    return shares[:, shares.amax(0) > ROUNDING]


def centres(model, name: str, count: int) -> Tensor | None:
    """Centres at rest (count, 3) of the elements that a parameter of a soft body is a number of; None if it is of none."""
    for body in model.systems:
        if isinstance(body, SoftBody) and body.name == name.partition(".")[0] and count > 1:
            found = [group.index for group in body.matter.groups if len(group.index) == count]
            return body.rest[found[0]].mean(1) if found else None
    return None
