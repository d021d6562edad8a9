"""Soft bodies for tests: a block of random tetrahedra on the ground, beside an obstacle, and its rollout in PyTorch."""

import torch
from torch import Tensor

from gradsim.geometry import tet_grid
from gradsim.physics.contact import hunt_crossley, point_plane
from gradsim.physics.contact.point_sdf import direction, distance
from gradsim.physics.contact.vertex_plane import touch
from gradsim.physics.contact.vertex_sdf import touch_solid
from gradsim.physics.forces import neo_hookean
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

MESH = tet_grid.box((0.3, 0.2, 0.1), (3, 2, 1))
FRAMES, SUBSTEPS, PINNED = 4, 5, (0, 5)


def rest_positions() -> Tensor:
    """A box with shaken vertices (n, 3)."""
    x = torch.tensor(MESH.vertices)
    return x + 0.01 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def groups() -> tuple[Elements, ...]:
    """Tetrahedra of that box, the ground, and a rounded box that stands in its way."""
    x, tets = rest_positions(), torch.tensor(MESH.tets)
    vertices = torch.arange(len(x))[:, None]
    return (
        Elements(neo_hookean.FORCE, tets, neo_hookean.rest_shape(x, tets)),
        Elements(touch("continuous"), vertices),
        Elements(touch_solid("continuous"), vertices),
    )


def inputs(worlds: int, seed: int, shared: bool = False) -> list[Tensor]:
    """Of `program`, at a generic state: deformed, moving, partly in the ground and the obstacle, worlds unlike.

    Args:
        worlds: How many.
        seed: Of all numbers.
        shared: Whether all elements of a world have the same parameters.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    about = lambda size, *shape: size * (1 + 0.5 * torch.rand(*shape, generator=generator, dtype=torch.float64))
    n, B = len(MESH.vertices), worlds
    m = 1 if shared else len(MESH.tets)
    x = torch.tensor(MESH.vertices - MESH.vertices.mean(0)) + torch.tensor([0, 0, 0.045])
    axes = torch.linalg.qr(normal(B, 1, 3, 3))[0]
    unit = torch.nn.functional.normalize(0.1 * normal(B, 1, 3) + torch.tensor([0, 0, 1.0]), dim=-1)
    return [
        x + 0.01 * normal(B, n, 3),
        torch.tensor([0.5, 0.2, -0.3]) + 0.2 * normal(B, n, 3),
        about(20.0, B, n),
        torch.tensor([0.3, 0.2, -9.81]) + normal(B, 3),
        *(about(size, B, m) for size in (1e4, 2e4, 5.0)),
        0.05 * normal(B, m),
        unit,
        0.003 * normal(B, 1),
        *(about(size, B, 1) for size in (500.0, 0.5, 5.0, 0.3)),
        torch.tensor([0.15, 0.0, 0.05]) + 0.02 * normal(B, 1, 3),
        *axes.unbind(2),
        *(about(0.03, B, 1) for _ in range(4)),
        *(about(size, B, 1) for size in (400.0, 0.5, 5.0, 0.3)),
        about(1e-3, B, FRAMES - 1),
    ]


def program(mapping=None, segment: int = 2, **given) -> Particles:
    """A rollout of `groups`."""
    arguments = {"groups": groups(), "frames": FRAMES, "substeps": SUBSTEPS, "dt": 1e-3, "pinned": PINNED} | given
    return Particles(segment=segment, mapping=mapping, **arguments)


def plain(
    groups_: tuple[Elements, ...], given: list[Tensor], integrator: str = "semi-implicit", driven: tuple[int, ...] = ()
) -> list[Tensor]:
    """The same rollout from the definitions of the forces, in PyTorch; differentiable.

    Args:
        groups_: Of `groups`.
        given: Of `inputs`; with `drive_x` and `drive_v` before the last, if there are driven vertices.
        integrator: Its name.
        driven: Vertices that are put where these have them.
    """
    x, v, inverse_mass, gravity = given[:4]
    tets, step, worlds = groups_[0], given[-1], len(x)
    per_tet = [y.expand(worlds, len(tets.index)) for y in given[4:8]]
    free = torch.ones(x.shape[1], dtype=x.dtype)
    free[list(PINNED)] = 0

    def acceleration(x: Tensor, v: Tensor) -> Tensor:
        each = neo_hookean.reference(x[:, tets.index], v[:, tets.index], *tets.rest.values(), *per_tet)
        f = torch.zeros_like(x).index_add(1, tets.index.flatten(), each.flatten(1, 2))
        f = f + on_plane(x, v, *given[8:14]) + on_solid(x, v, *given[14:26])
        return free[:, None] * (f * inverse_mass[..., None] + gravity[:, None])

    instants = iter(range(given[-2].shape[1]))

    def placed(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """With the driven vertices at the next instant."""
        if not driven:
            return x, v
        k, index = next(instants), torch.tensor(driven)
        return x.index_copy(1, index, given[-3][:, k]), v.index_copy(1, index, given[-2][:, k])

    frames = [(x, v)]
    for k in range(step.shape[1]):
        h = step[:, k, None, None]
        if integrator == "verlet":
            x, v = placed(x, v)
        a = acceleration(x, v)
        for _ in range(SUBSTEPS):
            if integrator == "verlet":
                before = a
                x, u = placed(x + h * v + h**2 / 2 * a, v + h * a)
                a = acceleration(x, u)
                v = u + h / 2 * (a - before)
            elif integrator == "nystrom":
                a1 = acceleration(*placed(x, v))
                a2 = acceleration(*placed(x + h / 2 * v + h**2 / 8 * a1, v + h / 2 * a1))
                last = placed(x + h * v + h**2 / 2 * a2, v + h * (2 * a2 - a1))
                a3 = acceleration(*last)
                x, v = x + h * v + h**2 / 6 * (a1 + 2 * a2), v + h / 6 * (a1 + 4 * a2 + a3)
                for j in driven:
                    x, v = (
                        torch.cat([y[:, :j], end[:, j : j + 1], y[:, j + 1 :]], 1)
                        for y, end in zip((x, v), last, strict=True)
                    )
            else:
                v = v + h * acceleration(x, v)
                x, v = placed(x + h * v, v)
        frames.append((x, v))
    return [torch.stack(y, 1) for y in zip(*frames, strict=True)]


def on_plane(x, v, normal, height, stiffness, damping, friction_stiffness, friction) -> Tensor:
    """Forces of the ground (worlds, n, 3) [N]."""
    gap = (x * normal).sum(-1) - height
    return _touching(gap, v, normal.expand_as(x), stiffness, damping, friction_stiffness, friction)


def on_solid(x, v, centre, a0, a1, a2, h0, h1, h2, rounding, *law) -> Tensor:
    """Forces of a rounded box (worlds, n, 3) [N]."""
    axes, half = torch.stack([a0, a1, a2], -2), torch.stack([h0, h1, h2], -1)
    local = ((x - centre)[..., None, :] * axes).sum(-1)
    gap = distance(local, half.expand_as(local)) - rounding
    normal = (direction(local, half.expand_as(local))[..., None] * axes).sum(-2)
    return _touching(gap, v, normal, *law)


def _touching(gap, v, normal, stiffness, damping, friction_stiffness, friction) -> Tensor:
    rate = (v * normal).sum(-1)
    f_n = hunt_crossley.reference(gap, rate, stiffness, damping)
    f = point_plane.reference(v, normal, f_n, friction_stiffness, friction)
    return torch.where((gap < 0)[..., None], f, 0.0)
