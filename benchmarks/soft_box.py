"""A soft box that lands on the ground while it slides: the job of `solid.py`, as plain arrays for every engine.

Cells of 0.1 m, five tetrahedra in each, mirrored from cell to cell so that their diagonals meet; each has its own E, the
same ν, damping, and a small activation. All vertices have the same mass. The box starts 2 mm inside the ground, at 1 m/s
along it and 0.5 m/s down, every vertex a little different. The loss is Σ weights · x after the last step.
"""

from dataclasses import dataclass, replace

import numpy as np

from gradsim.geometry.tet_grid import box

CELLS = {100: (5, 2, 2), 1000: (5, 5, 8), 10000: (10, 10, 20), 100000: (20, 25, 40)}  # by number of tetrahedra
CELL, DENSITY = 0.1, 100.0  # [m], [kg/m³]
YOUNG, POISSON, DAMPING, ACTIVATION = 2e4, 0.3, 2.0, 0.02  # [Pa], -, [Pa s], standard deviation
DT, GRAVITY = 2.5e-4, 9.81  # [s], [m/s²]
GROUND = {"stiffness": 1e4, "damping": 10.0, "friction_stiffness": 100.0, "friction": 0.5}  # of one vertex


@dataclass(frozen=True)
class SoftBox:
    """All numbers of the job: n vertices, m tetrahedra.

    Args:
        tets: (m, 4).
        rest_inverse: Inverse of the rest edges, as columns, (m, 3, 3) [1/m].
        volume: At rest (m) [m³].
        mu: (m) [Pa].
        lam: (m) [Pa].
        damping: (m) [Pa s].
        activation: (m).
        inverse_mass: (n) [1/kg].
        shape: Vertices at rest (n, 3) [m].
        x: Start (n, 3) [m].
        v: Start (n, 3) [m/s].
        weights: Of the loss (n, 3).
        ground: Stiffness, damping, friction stiffness and friction of each vertex.
    """

    tets: np.ndarray
    rest_inverse: np.ndarray
    volume: np.ndarray
    mu: np.ndarray
    lam: np.ndarray
    damping: np.ndarray
    activation: np.ndarray
    inverse_mass: np.ndarray
    shape: np.ndarray
    x: np.ndarray
    v: np.ndarray
    weights: np.ndarray
    ground: dict[str, float]

    def undamped(self) -> "SoftBox":
        """The same without any damping: there the laws of all engines are one."""
        return replace(self, damping=0 * self.damping, ground={**self.ground, "damping": 0.0})


def soft_box(tets: int) -> SoftBox:
    """The box of this many tetrahedra, a key of `CELLS`."""
    mesh = box([CELL * n for n in CELLS[tets]], CELLS[tets])
    shape = mesh.vertices - mesh.vertices.min(0)
    edges = (shape[mesh.tets[:, 1:]] - shape[mesh.tets[:, :1]]).transpose(0, 2, 1)
    random = np.random.default_rng(0)
    young = YOUNG * (1 + 0.2 * random.random(tets))
    return SoftBox(
        tets=mesh.tets.astype(np.int32),
        rest_inverse=np.linalg.inv(edges),
        volume=mesh.volumes,
        mu=young / (2 * (1 + POISSON)),
        lam=young * POISSON / ((1 + POISSON) * (1 - 2 * POISSON)),
        damping=np.full(tets, DAMPING),
        activation=ACTIVATION * random.standard_normal(tets),
        inverse_mass=np.full(len(shape), 1 / (DENSITY * CELL**3)),
        shape=shape,
        x=shape - [0, 0, 0.002],
        v=[1.0, 0.0, -0.5] + 0.05 * random.standard_normal(shape.shape),
        weights=random.standard_normal(shape.shape),
        ground=dict(GROUND),
    )
