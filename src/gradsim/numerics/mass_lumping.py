"""Masses of vertices from those of elements, and bounds of vibrations from elements alone (Irons and Treharne 1971).

With K = Σ K_e and M = Σ M_e, the largest eigenvalue of M⁻¹ K is at most the largest of any element's own M_e⁻¹ K_e. Any
split of the masses will do: each vertex gives its mass in equal shares to the elements of one kind that have it.
"""

import torch
from torch import Tensor


def lump_masses(share: Tensor, elements: Tensor, count: int) -> Tensor:
    """Masses of vertices (worlds, count) [kg] from contributions of elements to their nodes (worlds, m, nodes)."""
    shares = share.flatten(1)
    return shares.new_zeros(len(shares), count).index_add(1, elements.flatten(), shares)


def inverse_element_masses(mass: Tensor, elements: Tensor) -> Tensor:
    """Inverse masses (worlds, m, nodes) [1/kg] of the vertices of each element, of each the part that is the element's."""
    valence = torch.bincount(elements.flatten(), minlength=mass.shape[1]).to(mass.dtype)
    return (valence / mass)[:, elements]
