"""Stiff bodies for tests: random tetrahedra on the ground, and their backward Euler steps with dense matrices."""

import torch
from particle_cases import on_plane
from torch import Tensor
from torch.autograd.functional import jacobian

from gradsim.geometry import tet_grid
from gradsim.physics.contact.vertex_plane import touch
from gradsim.physics.forces import neo_hookean
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.implicit import ImplicitParticles

MESH = tet_grid.box((0.2, 0.1, 0.1), (2, 1, 1))
FRAMES, PINNED = 3, (0, 5)


def rest_positions() -> Tensor:
    """A box with shaken vertices (n, 3)."""
    x = torch.tensor(MESH.vertices)
    return x + 0.005 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def groups(x: Tensor | None = None, tets: Tensor | None = None) -> tuple[Elements, ...]:
    """Tetrahedra and the ground."""
    x = rest_positions() if x is None else x
    tets = torch.tensor(MESH.tets) if tets is None else tets
    vertices = torch.arange(len(x))[:, None]
    return (
        Elements(neo_hookean.FORCE, tets, neo_hookean.rest_shape(x, tets)),
        Elements(touch("continuous"), vertices),
    )


def inputs(worlds: int, seed: int) -> list[Tensor]:
    """Of `program`, at a generic state: deformed, moving, partly in the ground, worlds unlike.

    A vertex of 40 g on springs of about 1 kN/m moves on its own at 160 rad/s: h ω is about 3, so an explicit step of that
    size is unstable.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    about = lambda size, *shape: size * (1 + 0.5 * torch.rand(*shape, generator=generator, dtype=torch.float64))
    n, B, m = len(MESH.vertices), worlds, len(MESH.tets)
    x = torch.tensor(MESH.vertices - MESH.vertices.mean(0)) + torch.tensor([0, 0, 0.045])
    unit = torch.nn.functional.normalize(0.1 * normal(B, 1, 3) + torch.tensor([0, 0, 1.0]), dim=-1)
    return [
        x + 0.005 * normal(B, n, 3),
        torch.tensor([0.5, 0.2, -0.3]) + 0.2 * normal(B, n, 3),
        about(20.0, B, n),
        torch.tensor([0.3, 0.2, -9.81]) + normal(B, 3),
        *(about(size, B, m) for size in (1e4, 2e4, 20.0)),
        0.05 * normal(B, m),
        unit,
        0.003 * normal(B, 1),
        *(about(size, B, 1) for size in (2000.0, 0.5, 5.0, 0.3)),
        about(1.5e-2, B, FRAMES - 1),
    ]


def program(mapping=None, **given) -> ImplicitParticles:
    """A rollout of `groups`."""
    arguments = {"groups": groups(), "frames": FRAMES, "substeps": 2, "dt": 1e-2, "pinned": PINNED} | given
    return ImplicitParticles(mapping=mapping, **arguments)


def dense(given: list[Tensor], substeps: int = 2) -> list[Tensor]:
    """The rollout of one world by Newton's method with dense matrices, in PyTorch; differentiable.

    A Newton step from the solution of a step has the derivatives of the solution, by the implicit function theorem.
    """
    x, v, inverse_mass, gravity = given[:4]
    tets = groups()[0]
    free = torch.ones(x.shape[1], 1, dtype=x.dtype)
    free[list(PINNED)] = 0

    def forces(x, v):
        each = neo_hookean.reference(x[:, tets.index], v[:, tets.index], *tets.rest.values(), *given[4:8])
        f = torch.zeros_like(x).index_add(1, tets.index.flatten(), each.flatten(1, 2))
        return f + on_plane(x, v, *given[8:14])

    frames = [(x, v)]
    for k in range(given[-1].shape[1]):
        h = given[-1][:, k, None, None]
        for _ in range(substeps):

            def residual(u, x=x, v=v, h=h):
                u = u.reshape(x.shape)
                a = forces(x + h * u, u) * inverse_mass[..., None] + gravity[:, None]
                return (u - v - h * free * a).flatten()

            matrix = lambda u, residual=residual: jacobian(residual, u, vectorize=True).detach()
            u, change = v.detach().flatten(), 1.0
            while change > 1e-12:
                r, t = residual(u).detach(), 1.0
                step = torch.linalg.solve(matrix(u), r)
                while residual(u - t * step).norm() > r.norm() > 1e-11 and t > 1e-3:
                    t /= 2
                u, change = (u - t * step).detach(), step.norm().item()
            u = (u - torch.linalg.solve(matrix(u), residual(u))).reshape(x.shape)
            x, v = x + h * u, u
        frames.append((x, v))
    return [torch.stack(y, 1) for y in zip(*frames, strict=True)]
