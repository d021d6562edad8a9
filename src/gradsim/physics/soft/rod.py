"""Elements of rods: edges that stretch (`spring.py`), vertices that bend and twist (`rod_bending.py`), and frame points.

Bending and twist may relax (`rod_relaxation.py`) and yield (`rod_plasticity.py`); stretch does neither.

    k = E A/l of an edge of rest length l,   B/l̄ of a vertex with the mean l̄ of both edges, s̄ = l̄ κ̄, c = (time) k

Behind the n vertices are n - 1 frame points, one for each edge, at an arm of the mean length of edges from its middle, which
carry its material frame (`rod_frame.py`). They have 1/1000 of the mass of the edge, so twist is quasi-static for all that
is seen, and the weight of the rod is off its axis by 1/1000 of the arm at most.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from gradsim.geometry.tubes import Tubes
from gradsim.numerics.mass_lumping import lump_masses
from gradsim.physics.forces import rod_bending, rod_frame, rod_plasticity, rod_relaxation, spring
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.body import SoftBody, scale_of
from gradsim.physics.soft.plastic import PlasticPoints
from gradsim.physics.soft.relaxing import PointBranches, Series
from gradsim.physics.system import Values

FRAME_MASS = 1e-3  # of a frame point, over that of its edge
FRAME_RATE = 300.0  # [rad/s] at which a frame point returns to its circle, critically damped
OVERLAP = 3  # vertices that bend which act on one vertex
GRIP = 10.0  # stiffness of what holds the frame of an attached edge, over that of the twist of one vertex


def rod_body(name, body, scene, vertex_offset: int, dtype: torch.dtype, device: torch.device) -> SoftBody:
    """The `System` of a rod. Arguments as for `RigidBody`."""
    return SoftBody(name, body, scene, vertex_offset, RodElements(name, body, dtype, device))


def frame_points(x: np.ndarray, arm: float, roll: float) -> np.ndarray:
    """Frame points (n - 1, 3) [m] of a center line (n, 3) without twist, by parallel transport from edge to edge.

    Args:
        x: Vertices [m].
        arm: Distance from the middle of each edge [m].
        roll: Turn about the first edge of the first axis, from horizontal [rad].
    """
    t = np.diff(x, axis=0)
    t /= np.linalg.norm(t, axis=1, keepdims=True)
    across = np.cross(t[0], [0.0, 0.0, 1.0])
    if np.linalg.norm(across) < 1e-6:  # an upright edge
        across = np.cross(t[0], [0.0, 1.0, 0.0])
    across /= np.linalg.norm(across)
    axes = [np.cos(roll) * across + np.sin(roll) * np.cross(t[0], across)]
    for before, after in pairwise(t):
        axes.append(axes[-1] - (axes[-1] @ after) / (1 + before @ after) * (before + after))
    return (x[1:] + x[:-1]) / 2 + arm * np.array(axes)


class RodElements:
    """An `ElementModel` (see `body.py`) made from a scene's rod.

    Args:
        name: The body's name.
        body: The scene's description of it.
        dtype: Precision of all its tensors.
        device: Where they live.
    """

    smooth = True

    def __init__(self, name: str, body, dtype: torch.dtype, device: torch.device):
        self.name, self.body = name, body
        to = {"dtype": dtype, "device": device}
        vertices = body.rest_vertices
        self.count = n = len(vertices)
        length = np.linalg.norm(np.diff(vertices, axis=0), axis=1)
        self.arm = float(length.mean())
        rest = torch.tensor(np.concatenate([vertices, frame_points(vertices, self.arm, body.roll)]))
        k = torch.arange(n, device=device)
        self.edges = torch.stack([k[:-1], k[1:]], 1)
        self.bends = torch.stack([k[:-2], k[1:-1], k[2:], n + k[:-2], n + k[1:-1]], 1)
        self.rest, self.length = rest.to(**to), torch.tensor(length).to(**to)
        self.outer, self.faces = k, k.new_zeros(0, 3)
        self.branches = PointBranches(Series(name, body), rod_relaxation.FORCE, self.bends, {}, len(rest))
        self.plastic = PlasticPoints(name, body, self.bends, len(rest) + self.branches.points)
        yields = Elements(rod_plasticity.FORCE, self.plastic.index) if self.plastic.points else None
        self.groups = [
            Elements(spring.FORCE, self.edges),
            yields or Elements(rod_bending.FORCE, self.bends),
            Elements(rod_frame.FORCE, torch.cat([self.edges, n + k[:-1, None]], 1)),
            *self.branches.groups,
        ]
        self.strain_points = self.branches.points + self.plastic.points
        self.rest = torch.cat([self.rest, self.rest.new_zeros(self.strain_points, 3)])
        at = [*range(0, 2 * n, 2), *range(1, 2 * n - 1, 2)]  # each frame point between the ends of its edge
        at += [*range(2, 2 * n - 2, 2)] * (self.strain_points // len(self.bends))  # strains after their vertices
        self.place = tuple(np.argsort(np.argsort(at, kind="stable")).tolist())
        nodes = rest[self.bends.cpu()].requires_grad_()
        with torch.enable_grad():  # a user's no_grad does not count here
            strains = rod_bending.strains(nodes)
            slopes = [torch.autograd.grad(strains[:, q].sum(), nodes, retain_graph=True)[0] for q in range(3)]
        self.slope = torch.stack(slopes, 1).square().sum(-1).to(**to)  # |∂s/∂x|² (bends, 3, 5) [1/m²]
        self.tubes = Tubes([np.arange(n)], vertices, body.radius)
        self.mesh = self.tubes.mesh

    def frames_between(self, held: Sequence[int]) -> list[tuple[int, int, int]]:
        """Frame points of the edges whose ends are both held, as (point, first end, second end)."""
        fixed = set(held)
        return [(self.count + k, k, k + 1) for k in range(self.count - 1) if {k, k + 1} <= fixed]

    def frame_grip(self, values: Values) -> tuple[Tensor, Tensor]:
        """Stiffness [N/m] and damping [N s/m] (worlds, 1) of a spring that holds a frame point against twist."""
        twisting = self._of("twisting", values) / self._both(values)
        stiffness = GRIP * twisting / (self.arm * scale_of(self.name, values)[:, None]) ** 2
        damping = stiffness * self._of("twisting_time", values)
        return stiffness.mean(1, keepdim=True), damping.mean(1, keepdim=True)

    def mass(self, values: Values) -> Tensor:
        length = self._lengths(values)
        if self.body.mass is None:
            density = self._of("density", values)
        else:
            density = self._of("mass", values) / length.sum(1, keepdim=True)
        edge = density * length
        ends = lump_masses((edge / 2)[..., None].expand(-1, -1, 2), self.edges, self.count)
        strains = (ends[:, 1:-1] * self._both(values)).repeat(1, self.strain_points // len(self.bends))
        return torch.cat([ends, FRAME_MASS * edge, strains], 1)

    def parameters(self, values: Values, start: Tensor) -> list[Tensor]:
        of = lambda key: self._of(key, values)
        length = self._lengths(values)
        both = self._both(values)
        stretching = of("stretching") / length
        stiffness, rest = (
            self._bending(values),
            [of(key) * both for key in ("curvature1", "curvature2", "natural_twist")],
        )
        viscosity = [k * of(key) for k, key in zip(stiffness, ("bending_time",) * 2 + ("twisting_time",), strict=True)]
        mass = self.mass(values)
        frame, inertia = mass[:, self.count : 2 * self.count - 1], mass[:, 2 * self.count - 1 :][:, : len(self.bends)]
        arm = (self.arm * scale_of(self.name, values))[:, None]
        factor = values.get(f"{self.name}.rest_length_factor")
        natural = length if factor is None else length * (factor[:, None] if factor.ndim == 1 else factor)
        return [
            *(natural, stretching, stretching * of("stretching_time")),
            *(*rest, *stiffness, *viscosity, *self._yielding(values, stiffness[0], inertia)),
            *(arm, frame * FRAME_RATE**2, 2 * frame * FRAME_RATE),
            *self.branches.parameters(values, [], stiffness, inertia),
        ]

    def relaxed_strains(self, x: Tensor, values: Values) -> Tensor:
        """Strains (worlds, points, 3) of branches that do not pull at vertices x (worlds, 2 n - 1, 3), and plastic ones, which are 0."""
        relaxed = rod_bending.strains(x[:, self.bends]).repeat(1, self.branches.series.count, 1)
        return torch.cat([relaxed, self.plastic.strains(x)], 1)

    def rates(self, values: Values, mass: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of springs as in `rope.py`; those of bending and twist by ∂s/∂x at the start."""
        inverse = 1 / mass
        stretching = (self._of("stretching", values) / self._lengths(values)).detach()
        ends = stretching * inverse[:, self.edges].sum(2)
        sums = (self.slope * inverse[:, self.bends][:, :, None]).sum(-1)  # (worlds, bends, 3)
        more, fastest = self.branches.series.rates(values)
        flowing, quickest = self.plastic.rates(values, self._of("bending", values))
        stiff = [k.detach() * sums[..., q] for q, k in enumerate(self._bending(values))]
        times = [self._of(key, values).detach() for key in ("bending_time", "bending_time", "twisting_time")]
        damped = [k * time for k, time in zip(stiff, times, strict=True)]
        stretch = ends * self._of("stretching_time", values).detach()
        frame = FRAME_RATE * mass.new_ones(len(mass))
        return (
            2 * ends.amax(1) + OVERLAP * torch.stack(stiff).sum(0).amax(1) * (1 + more) + 4 * frame**2 + flowing,
            2 * stretch.amax(1) + OVERLAP * torch.stack(damped).sum(0).amax(1) + 8 * frame + fastest + quickest,
        )

    def surface_vertices(self, x: Tensor, values: Values) -> Tensor:
        return self.tubes.around(x[:, :, : self.count], values[f"{self.name}.radius"])

    def _bending(self, values: Values) -> list[Tensor]:
        """Stiffnesses of the three strains (worlds, bends) [N m]."""
        both = self._both(values)
        bending = self._of("bending", values) / both
        return [bending, bending * self._of("bending_ratio", values), self._of("twisting", values) / both]

    def _yielding(self, values: Values, bending: Tensor, inertia: Tensor) -> list[Tensor]:
        """Parameters of `rod_plasticity` behind those of `rod_bending`; none without plasticity."""
        if not self.plastic.points:
            return []
        moment = self.plastic.number("yield_moment", values)
        weight = torch.zeros_like(moment)
        if self.body.plasticity.yield_torque is not None:
            weight = (moment / self.plastic.number("yield_torque", values)) ** 2
        hardening, flow = self.plastic.parameters(values, bending, 1 / self._both(values), inertia)
        return [moment, weight, hardening, *flow]

    def _lengths(self, values: Values) -> Tensor:
        """Lengths of the edges at rest (worlds, edges) [m]."""
        return self.length * scale_of(self.name, values)[:, None]

    def _both(self, values: Values) -> Tensor:
        """Mean length of the edges at each inner vertex (worlds, bends) [m]."""
        length = self._lengths(values)
        return (length[:, 1:] + length[:, :-1]) / 2

    def _of(self, key: str, values: Values) -> Tensor:
        """A number, (worlds, elements) or (worlds, 1)."""
        value = values[f"{self.name}.{key}"]
        return value[:, None] if value.ndim == 1 else value
