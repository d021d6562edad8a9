"""Small images that tests compare."""

import torch
from torch import Tensor


def images(*shape: int, seed: int = 3) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def disc(column: Tensor | float, row: float = 10.0) -> Tensor:
    """A soft disc of radius 3 px in a 20 by 60 image."""
    y, x = torch.meshgrid(torch.arange(20) + 0.5, torch.arange(60) + 0.5, indexing="ij")
    return torch.sigmoid(4 * (3 - torch.hypot(y - row, x - column))).double()
