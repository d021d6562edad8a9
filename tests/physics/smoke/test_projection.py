"""The solves of smoke against their definitions: what is projected has no divergence, what spreads is an eigenmode."""

import math

import pytest
import torch
from checks import error
from tolerances import ROUNDING, near

from gradsim.physics.model import Divergence
from gradsim.physics.smoke import projection
from gradsim.physics.smoke.grid import Grid
from gradsim.physics.smoke.projection import Diffuse, Project

LIKE = torch.zeros((), dtype=torch.float64)


def rock(shape) -> torch.Tensor:
    """A solid ball off the middle, and one solid cell alone."""
    places = torch.meshgrid(*[(torch.arange(n) + 0.5) / n for n in shape], indexing="ij")
    solid = torch.stack([(x - c) ** 2 for x, c in zip(places, (0.4, 0.6, 0.5), strict=False)]).sum(0) < 0.04
    solid[(1,) * len(shape)] = True
    return solid


GRIDS = {
    "periodic": Grid((32, 24), (1 / 32, 1 / 20)),
    "walled": Grid((32, 24), (1 / 32, 1 / 20), "walled"),
    "walls on one axis": Grid((32, 24), 1 / 32, ("walled", "periodic")),
    "odd sizes": Grid((9, 7), 0.1),
    "rock": Grid((32, 24), 1 / 32, "periodic", rock((32, 24))),
    "rock and walls": Grid((32, 24), 1 / 32, "walled", rock((32, 24))),
    "3-D": Grid((8, 10, 6), 0.1, ("walled", "periodic", "walled")),
    "3-D rock": Grid((8, 10, 6), 0.1, ("periodic", "walled", "periodic"), rock((8, 10, 6))),
}


@pytest.fixture(params=GRIDS, ids=list(GRIDS))
def grid(request) -> Grid:
    return GRIDS[request.param]


def velocities(grid: Grid, seed: int = 0, worlds: int = 2) -> torch.Tensor:
    """Random at every face, walls too [m/s]."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(worlds, grid.dimensions, *grid.shape, generator=generator, dtype=torch.float64)


def project(grid: Grid, u: torch.Tensor) -> torch.Tensor:
    return Project(grid, LIKE).forward([u])[0]


def test_a_projected_velocity_has_no_divergence(grid):
    assert grid.divergence(project(grid, velocities(grid))).abs().max() < 1e-10  # [1/s], acceptance A19


@pytest.mark.parametrize("solve", ["project", "diffuse"])
def test_a_solve_that_does_not_come_to_its_end_says_so(solve, monkeypatch):
    monkeypatch.setattr(projection, "MAX_ITERATIONS", 3)  # of some 20
    grid = GRIDS["rock"]
    u = velocities(grid)
    with pytest.raises(Divergence, match="leaves a residual of .* in world . after 3 steps of conjugate gradients"):
        project(grid, u) if solve == "project" else Diffuse(grid, 0.1, LIKE).forward([u, torch.ones(2).double()])


def test_nothing_flows_through_walls_and_obstacles(grid):
    u, closed = project(grid, velocities(grid)), torch.zeros(grid.dimensions, *grid.shape, dtype=torch.bool)
    for a, walled in enumerate(grid.walled):
        closed[a].select(a, 0).fill_(walled)
        if grid.solid is not None:
            closed[a] |= grid.solid | grid.solid.roll(1, a)
    assert (u[:, closed] == 0).all() and (u[:, ~closed] != 0).all()


def test_projection_is_idempotent_and_symmetric(grid):
    """So it is orthogonal, and is its own adjoint."""
    u, v = velocities(grid, 1), velocities(grid, 2)
    once, other = project(grid, u), project(grid, v)
    assert error(project(grid, once), once) < 1e-12
    terms = (once * v).abs().sum()
    assert ((once * v).sum() - (u * other).sum()).abs() < 1e-13 * terms


def test_divergence_is_minus_the_adjoint_of_the_gradient(grid):
    u = velocities(grid)
    passable = grid.passable()
    u = u if passable is None else u * passable
    p = torch.randn(u[:, 0].shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    terms = (grid.divergence(u) * p, u * grid.gradient(p))
    assert (terms[0].sum() + terms[1].sum()).abs() < 1e-13 * terms[0].abs().sum()


def test_a_solved_world_does_not_depend_on_others():
    for name in ("rock and walls", "3-D rock", "walled", "periodic"):
        grid = GRIDS[name]
        u = torch.cat([1e-3 * velocities(grid, 1, 1), velocities(grid, 2, 2)])
        assert all(torch.equal(project(grid, u[k : k + 1]), project(grid, u)[k : k + 1]) for k in range(3)), name


def test_steps_of_the_solver_do_not_grow_with_the_grid(monkeypatch):
    """Around obstacles: 24 steps are enough for 16² and 96² cells alike, else it would say that they are not."""
    monkeypatch.setattr(projection, "MAX_ITERATIONS", 24)
    for n in (16, 96):
        grid = Grid((n, n), 1 / n, "walled", rock((n, n)))
        assert grid.divergence(project(grid, velocities(grid))).abs().max() < 1e-12 * n


def mode(grid: Grid, axis: int) -> tuple[torch.Tensor, float]:
    """An eigenvector of the Laplacian of one component of the velocity, and its eigenvalue [1/m²]."""
    wave, rate = torch.ones(1, dtype=torch.float64), 0.0
    for a, (n, h, walled) in enumerate(zip(grid.shape, grid.spacing, grid.walled, strict=True)):
        cells = torch.arange(n, dtype=torch.float64)
        angle = math.pi * (2 + a) / n * (1 if walled else 2)
        if walled:
            along = (angle * cells).sin() if a == axis else (angle * (cells + 0.5)).cos()
        else:
            along = (angle * cells + 0.3).sin()
        wave, rate = wave[..., None] * along, rate + (2 - 2 * math.cos(angle)) / h**2
    return wave.squeeze(0), rate


@pytest.mark.parametrize("name", ["periodic", "walled", "walls on one axis", "odd sizes", "3-D"])
def test_waves_decay_as_backward_euler_says(name):
    """u' = u/(1 + dt ν λ): walls hold back what goes through them, and let slip what goes along."""
    grid, dt, nu = GRIDS[name], 0.02, torch.tensor([0.01, 0.3], dtype=torch.float64)
    for axis in range(grid.dimensions):
        wave, rate = mode(grid, axis)
        u = torch.zeros(2, grid.dimensions, *grid.shape, dtype=torch.float64)
        u[:, axis] = wave
        (spread,) = Diffuse(grid, dt, LIKE).forward([u, nu])
        expected = u / (1 + dt * nu * rate).view(-1, *[1] * (grid.dimensions + 1))
        assert error(spread, expected) < 1e-12


def test_what_spreads_around_rocks_solves_the_equation_at_every_face():
    """u' + dt ν L u' = u where it can flow, with neighbours read one by one."""
    grid, dt, nu = GRIDS["rock and walls"], 0.02, torch.tensor([0.1], dtype=torch.float64)
    passable = grid.passable()
    assert passable is not None
    u = velocities(grid, worlds=1) * passable
    (spread,) = Diffuse(grid, dt, LIKE).forward([u, nu])
    (rows, columns), h = grid.shape, grid.spacing[0]
    for a, i, j in [(0, 5, 7), (0, 1, 0), (0, 31, 23), (1, 0, 1), (1, 31, 23), (1, 12, 17), (0, 12, 17)]:
        if not passable[a, i, j]:
            continue
        x, laplacian = spread[0, a], 0.0
        for axis, (di, dj) in enumerate([(1, 0), (-1, 0), (0, 1), (0, -1)]):
            k, m = i + di, j + dj
            if 0 <= k < rows and 0 <= m < columns:
                laplacian += float(x[i, j] - x[k, m])
            elif axis // 2 == a:  # the wall ahead, where it is 0
                laplacian += float(x[i, j])
        assert float(x[i, j]) + dt * 0.1 * laplacian / h**2 == near(float(u[0, a, i, j]), ROUNDING, scale=1.0)


def test_spreading_is_symmetric():
    grid = GRIDS["rock and walls"]
    nu = torch.tensor([0.05, 0.4], dtype=torch.float64)
    solve = Diffuse(grid, 0.03, LIKE)
    u, v = velocities(grid, 1), velocities(grid, 2)
    one, two = solve.forward([u, nu])[0] * v, u * solve.forward([v, nu])[0]
    assert (one.sum() - two.sum()).abs() < 1e-13 * one.abs().sum()
