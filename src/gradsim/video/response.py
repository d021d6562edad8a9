"""Coverage of pixels at the edges of bodies as a function of a camera's response: γ, and the gain over the film of the empty scene.

    α(γ, g) = (I^γ − b)ᵀ M (F^γ − b) / (F^γ − b)ᵀ M (F^γ − b),      b = g B^γ

A pixel on an edge is a mean of light, light is value^γ, and a video that is exposed g times as long as the film of its background B has g times its light. I: color of the pixel, F: that of the
body there, M: weights of differences of color.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

MIN_VALUE = 1e-6  # value below which the derivative of value^γ by γ is that there


@dataclass(frozen=True, eq=False)
class Edges:
    """Colors at pixels about edges.

    Args:
        index: Numbers of n pixels in (frames, height, width), flat.
        image: Their colors (n, 3) in [0, 1].
        behind: Color of the background at a gain of 1 (n, 3).
        inside: Color of the body (n, 3).
        metric: M (3, 3).
        clipped: Whether coverage ends at 0 and at 1.
    """

    index: Tensor
    image: Tensor
    behind: Tensor
    inside: Tensor
    metric: Tensor
    clipped: bool = False

    def coverage(self, gamma: Tensor | float, gain: Tensor | float = 1.0) -> Tensor:
        """α (n,); differentiable by γ () and gain ()."""
        image, behind, inside = (y.clamp(min=MIN_VALUE) ** gamma for y in (self.image, self.behind, self.inside))
        behind = gain * behind
        weighted = (inside - behind) @ self.metric
        square = ((inside - behind) * weighted).sum(-1)
        alpha = ((image - behind) * weighted).sum(-1) / torch.where(square > 0, square, 1.0)
        return alpha.clamp(0, 1) if self.clipped else alpha

    def slopes(self, gamma: float, gain: float) -> tuple[Tensor, Tensor]:
        """Derivatives of α (n,) by γ and by the gain."""
        at = torch.tensor([gamma, gain], dtype=torch.float64)
        columns = [
            torch.func.jvp(lambda x: self.coverage(x[0], x[1]), (at,), (axis,))[1] for axis in torch.eye(2).double()
        ]
        return columns[0], columns[1]

    def at_gain(self, gamma: float, gain: float) -> "Edges":
        """The same, where the colors behind are those of a gain."""
        return replace(self, behind=self.behind / gain ** (1 / gamma))

    def of_frames(self, frames: np.ndarray, size: int) -> "Edges":
        """Those of some frames, in their order, each of which has `size` pixels."""
        frame, place = self.index // size, self.index % size
        rows, index = [], []
        for k, source in enumerate(frames.tolist()):
            chosen = torch.nonzero(frame == source)[:, 0]
            rows.append(chosen)
            index.append(k * size + place[chosen])
        at = torch.cat(rows) if rows else self.index[:0]
        places = torch.cat(index) if index else self.index[:0]
        return replace(self, index=places, image=self.image[at], behind=self.behind[at], inside=self.inside[at])


def edges_of(
    pixels: np.ndarray,
    image: np.ndarray,
    behind: np.ndarray,
    inside: np.ndarray,
    metric: np.ndarray | None = None,
    clipped: bool = False,
) -> Edges:
    """`Edges` of arrays of NumPy."""
    color = lambda y: torch.tensor(np.ascontiguousarray(y), dtype=torch.float64).reshape(-1, 3)
    weights = torch.tensor(np.eye(3) if metric is None else metric, dtype=torch.float64)
    return Edges(torch.tensor(pixels, dtype=torch.int64), color(image), color(behind), color(inside), weights, clipped)
