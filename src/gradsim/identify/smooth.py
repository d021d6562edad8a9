"""A prior for fields that vary smoothly over a body: a Gaussian process on its mesh (Lindgren, Rue, Lindström 2011).

    B = (1 + ℓ² L) / s,    r = B (u − mean),    prior = ½ ‖r‖²          (Eq. 10 there, α = 2)

L is the graph Laplacian of neighbours at distances d, weighted to approximate −∇²: L_ij = −w/d_ij², w = 2 D over the mean
number of neighbours, D the dimension of the body. In a solid the correlation falls as exp(−r/ℓ). s makes the root mean
square of the standard deviations `std`.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from gradsim.errors import InputError

PROBES = 64  # random vectors that measure the mean variance, to 1/√(64 n/2) of it


@dataclass(frozen=True)
class Smooth:
    """A field is near a mean and varies slowly over the body.

    Args:
        std: Standard deviation about the mean: of the logarithm of a positive quantity, else in its unit.
        length: Distance over which values go together [m]; 0 for values that are independent.
        mean: In the quantity's unit; None: the scene's value.

    Raises:
        InputError: If `std` is not above 0, or `length` negative.
    """

    std: float
    length: float = 0.0
    mean: float | None = None

    def __post_init__(self):
        if not 0 < self.std < np.inf or not 0 <= self.length < np.inf:
            raise InputError(f"a prior has std {self.std} and length {self.length} m; std > 0 and length >= 0, finite.")

    def factor(self, places: np.ndarray, edges: np.ndarray, dimension: int) -> sparse.csc_array:
        """B (n, n): the inverse of a root of the covariance.

        Args:
            places: (n, 3) [m].
            edges: Neighbours (e, 2).
            dimension: Of the body.
        """
        n = len(places)
        B = sparse.eye_array(n, format="csc")
        if self.length and len(edges):
            a, b = edges.T
            weight = 1 / np.square(places[a] - places[b]).sum(1)
            weight *= 2 * dimension / (2 * len(edges) / n)
            W = sparse.coo_array((weight, (a, b)), (n, n))
            W = W + W.T
            B = sparse.csc_array(B + self.length**2 * (sparse.diags_array(W.sum(1)) - W))
            probes = np.random.default_rng(0).standard_normal((n, PROBES))
            B = B * np.sqrt(np.square(splu(B).solve(probes)).mean())
        return sparse.csc_array(B / self.std)


def neighbours(index: np.ndarray, n: int, vertices: bool) -> np.ndarray:
    """Pairs (e, 2) of vertices that share an element, or of elements that share a side.

    Args:
        index: Vertices of the elements (m, nodes).
        n: Number of vertices.
        vertices: Which of the two.
    """
    m, nodes = index.shape
    contains = sparse.coo_array((np.ones(m * nodes, np.int64), (np.repeat(np.arange(m), nodes), index.ravel())), (m, n))
    shared = sparse.triu((contains.T @ contains) if vertices else (contains @ contains.T), 1).tocoo()
    enough = shared.data >= (1 if vertices else max(1, nodes - 1))
    return np.stack([shared.row[enough], shared.col[enough]], 1)
