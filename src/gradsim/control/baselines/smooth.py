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
from gradsim.control.sharing import centres

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
        places = _places(plant, name)
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


def _places(plant: "Plant", name: str) -> Tensor | None:
    """Where the outputs of a control act at rest (outputs, 3): the centre of an element, or of those that share one."""
    found = centres(plant.model, name)
    if found is None or name not in plant.share:
        return found
    return torch.stack([found[plant.share[name] == k].mean(0) for k in range(plant.outputs_of[name])])
