"""A sheet of cloth that flies and flaps in still air: the job of `cloth.py`, as plain arrays for every engine.

Squares of 0.125 m, two triangles in each; mass, in-plane stiffness, lift and drag are those of the cloth in the paper's
control task. It starts in waves, at 5 m/s, every vertex a little different. The loss is Σ weights · x after the last step.
"""

from dataclasses import dataclass

import numpy as np

from gradsim.geometry.sheet import grid, hinges

SQUARES = {64: (4, 8), 512: (16, 16), 2048: (32, 32)}  # by number of triangles
SQUARE, MASS = 0.125, 2.0  # [m], of a vertex [kg]
DT, GRAVITY = 1 / 1920, 9.81  # [s], [m/s²]
STIFFNESS, DAMPING, BENDING, DRAG, LIFT = 1e4, 100.0, 100.0, 5.0, 10.0
"""In-plane μ and λ [Pa m] and damping [Pa s m], bending, drag and lift: the numbers are the same, the laws are not."""


@dataclass(frozen=True)
class ClothSheet:
    """All numbers of the job: n vertices, m triangles.

    Args:
        triangles: (m, 3).
        hinges: Two opposite vertices, then the two on the edge (inner edges, 4).
        shape: Vertices at rest (n, 3) [m].
        x: Start (n, 3) [m].
        v: Start (n, 3) [m/s].
        inverse_mass: (n) [1/kg].
        weights: Of the loss (n, 3).
    """

    triangles: np.ndarray
    hinges: np.ndarray
    shape: np.ndarray
    x: np.ndarray
    v: np.ndarray
    inverse_mass: np.ndarray
    weights: np.ndarray


def cloth_sheet(triangles: int) -> ClothSheet:
    """The sheet of this many triangles, a key of `SQUARES`."""
    columns, rows = SQUARES[triangles]
    sheet = grid((SQUARE * columns, SQUARE * rows), (columns, rows))
    shape = sheet.vertices
    random = np.random.default_rng(0)
    x = shape + [0, 0, 2]
    x[:, 2] += 0.05 * np.sin(6 * shape[:, 0]) * np.cos(4 * shape[:, 1])
    return ClothSheet(
        triangles=sheet.faces,
        hinges=hinges(sheet.faces),
        shape=shape,
        x=x,
        v=[3.0, 0.0, 4.0] + 0.05 * random.standard_normal(shape.shape),
        inverse_mass=np.full(len(shape), 1 / MASS),
        weights=random.standard_normal(shape.shape),
    )
