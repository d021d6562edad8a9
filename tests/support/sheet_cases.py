"""Sheets for tests: a shaken flag in the wind, held at points and by springs, and its rollout in PyTorch."""

from importlib import import_module

import torch
from torch import Tensor

from gradsim.geometry import sheet
from gradsim.physics.forces import aerodynamics, anchor, bending, membrane, spring
from gradsim.physics.forces.base import Elements
from gradsim.physics.soft.rollout import Particles

MESH = sheet.grid((0.4, 0.3), (3, 2))
FRAMES, SUBSTEPS, PINNED = 3, 5, (0,)


def rest_positions() -> Tensor:
    """A grid with shaken vertices (n, 3), curved."""
    x = torch.tensor(MESH.vertices)
    return x + 0.02 * torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def groups() -> tuple[Elements, ...]:
    """Triangles in their plane, hinges, the air, diagonal springs, and two vertices tied to points."""
    x = rest_positions()
    faces, hinges = torch.tensor(MESH.faces), torch.tensor(sheet.hinges(MESH.faces))
    return (
        Elements(membrane.FORCE, faces, membrane.rest_shape(x, faces)),
        Elements(bending.FORCE, hinges, bending.rest_shape(x, hinges)),
        Elements(aerodynamics.FORCE, faces),
        Elements(spring.FORCE, torch.tensor([[1, 6], [2, 9], [4, 11]])),
        Elements(anchor.FORCE, torch.tensor([[3], [8]])),
    )


SIZES = {
    "membrane": {"mu": 50.0, "lam": 80.0, "damping": 0.05},
    "bending": {"stiffness": 0.02, "damping": 1e-4},
    "aerodynamics": {"density": 1.2, "drag": 1.1, "lift": 0.8},
    "spring": {"rest_length": 0.2, "stiffness": 30.0, "damping": 0.05},
    "anchor": {"stiffness": 50.0, "damping": 0.1},
}


def inputs(worlds: int, seed: int, shared: bool = False) -> list[Tensor]:
    """Of `program`, at a generic state: deformed, moving, worlds unlike.

    Args:
        worlds: How many.
        seed: Of all numbers.
        shared: Whether all elements of a world have the same parameters.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)
    x, B = torch.tensor(MESH.vertices), worlds
    given = [
        x + 0.03 * normal(B, *x.shape),
        torch.tensor([0.5, 0.2, -0.3]) + 0.3 * normal(B, *x.shape),
        100 * normal(B, len(x)).mul(0.3).exp(),
        torch.tensor([0.3, 0.2, -9.81]) + normal(B, 3),
    ]
    for group in groups():
        m = 1 if shared else len(group.index)
        for name, kind in group.force.parameters.items():
            size = SIZES[group.force.name].get(name)
            given.append(
                normal(B, m, 3) if kind == "Vec3" else 0.1 * normal(B, m) if size is None
                else size * normal(B, m).mul(0.3).exp()
            )  # fmt: skip
    return [*given, 1e-3 * normal(B, FRAMES - 1).mul(0.2).exp()]


def program(mapping=None) -> Particles:
    """A rollout of `groups`."""
    return Particles(groups(), FRAMES, SUBSTEPS, 1e-3, pinned=PINNED, mapping=mapping)


def plain(given: list[Tensor]) -> list[Tensor]:
    """The same rollout from the definitions of the forces, in PyTorch; differentiable."""
    x, v, inverse_mass, gravity, *parameters, step = given
    free = torch.ones(x.shape[1], dtype=x.dtype)
    free[list(PINNED)] = 0
    frames = [(x, v)]
    for k in range(step.shape[1]):
        h = step[:, k, None, None]
        for _ in range(SUBSTEPS):
            f, rest = torch.zeros_like(x), iter(parameters)
            for group in groups():
                own = {name: next(rest) for name in group.force.parameters}
                own = {name: y.expand(len(x), len(group.index), *y.shape[2:]) for name, y in own.items()}
                at = (x[:, group.index], v[:, group.index])
                each = import_module(group.force.module).reference(*at, **group.rest, **own)
                f = f.index_add(1, group.index.flatten(), each.flatten(1, 2))
            v = v + h * free[:, None] * (f * inverse_mass[..., None] + gravity[:, None])
            x = x + h * v
        frames.append((x, v))
    return [torch.stack(y, 1) for y in zip(*frames, strict=True)]
