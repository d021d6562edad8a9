"""Steps that keep a surface smooth (Nicolet et al. 2021, "Large steps in inverse rendering of geometry").

    x = S u,    S = (1 + λ L)⁻¹,    L = degrees − adjacency

Descend on u in place of the vertices x. A gradient that an image has at a few vertices only, those of the outline, then
moves those around them too, and steps may be large without folds; what u = S⁻¹ x of any x can be reached.
"""

import torch
from torch import Tensor


def smoothing(faces: Tensor, vertices: int, strength: float) -> tuple[Tensor, Tensor]:
    """S and its inverse 1 + λ L (n, n) float64, dense: for some thousand vertices.

    Args:
        faces: Triangles (m, 3).
        vertices: n.
        strength: λ, at least 0: a step reaches about √λ edges far.

    Raises:
        ValueError: If the strength is negative.
    """
    if strength < 0:
        raise ValueError(f"strength is {strength}; it needs to be at least 0.")
    ends = faces.long()
    adjacent = torch.zeros(vertices, vertices, dtype=torch.float64, device=faces.device)
    for first, second in ((0, 1), (1, 2), (2, 0)):
        adjacent[ends[:, first], ends[:, second]] = adjacent[ends[:, second], ends[:, first]] = 1.0
    inverse = torch.eye(vertices).to(adjacent) + strength * (torch.diag(adjacent.sum(1)) - adjacent)
    return torch.linalg.inv(inverse), inverse
