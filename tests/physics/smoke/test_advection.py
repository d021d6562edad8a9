"""What carries smoke: shifts, the range of values, mass, and the order of both schemes."""

import math

import pytest
import torch
import warp as wp
from checks import slope

from gradsim.physics.smoke.advection import Advection, _code
from gradsim.physics.smoke.grid import Grid

LIKE = torch.zeros((), dtype=torch.float64)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cells(n: int, at: float = 0.5) -> torch.Tensor:
    """Places along an edge of 1 m."""
    return (torch.arange(n, dtype=torch.float64) + at) / n


def vortices(n: int) -> torch.Tensor:
    """A steady flow without divergence on n² periodic cells of a box of 1 m, at lower faces (1, 2, n, n) [m/s]."""
    face, centre = 2 * math.pi * cells(n, 0.0), 2 * math.pi * cells(n)
    down = face[:, None].sin() * centre.cos()
    right = -centre[:, None].cos() * face.sin()
    return torch.stack([down, right])[None]


@pytest.mark.parametrize("scheme", ["bilinear", "maccormack"])
def test_a_uniform_velocity_of_whole_cells_shifts(scheme):
    grid, dt = Grid((8, 11), (0.1, 0.2)), 0.5
    q, u = random(1, 8, 11), torch.zeros(1, 2, 8, 11, dtype=torch.float64)
    u[:, 0], u[:, 1] = 3 * 0.1 / dt, -13 * 0.2 / dt
    move = Advection(grid, dt, scheme, LIKE)
    assert (move(q, u) - q.roll((3, -13), (1, 2))).abs().max() < 1e-12
    assert (move(u, u) - u).abs().max() < 1e-12


@pytest.mark.parametrize("scheme", ["bilinear", "maccormack"])
def test_values_stay_between_the_least_and_the_largest(scheme):
    grid = Grid((12, 9), 0.1)
    q, u = random(2, 12, 9), random(2, 2, 12, 9, seed=1)
    moved = Advection(grid, 0.17, scheme, LIKE)(q, u)  # by 1.7 cells
    bound = lambda y: (y.flatten(1).amin(1), y.flatten(1).amax(1))
    (low, high), (least, largest) = bound(moved), bound(q)
    assert (low >= least - 1e-15).all() and (high <= largest + 1e-15).all()


def test_mass_is_kept_where_the_velocity_is_uniform():
    grid, q = Grid((8, 11), 0.1), random(1, 8, 11)
    u = torch.tensor([0.37, -0.81], dtype=torch.float64).view(1, 2, 1, 1).expand(1, 2, 8, 11).contiguous()
    moved = Advection(grid, 0.1, "bilinear", LIKE)(q, u)
    assert (moved.sum() - q.sum()).abs() < 1e-13 * q.abs().sum()
    assert (moved - q).abs().max() > 0.1


def pattern(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (2 * math.pi * x).sin() * (2 * math.pi * (y + 0.1)).cos() + 0.5 * (4 * math.pi * y).sin()


def carried(n: int, duration: float) -> torch.Tensor:
    """What `pattern` becomes in the steady vortices, by Runge–Kutta along the paths of particles."""
    x, y = (g.clone() for g in torch.meshgrid(cells(n), cells(n), indexing="ij"))
    flow = lambda x, y: (
        (2 * math.pi * x).sin() * (2 * math.pi * y).cos(),
        -(2 * math.pi * x).cos() * (2 * math.pi * y).sin(),
    )
    h = -duration / 64
    for _ in range(64):
        a = flow(x, y)
        b = flow(x + h / 2 * a[0], y + h / 2 * a[1])
        c = flow(x + h / 2 * b[0], y + h / 2 * b[1])
        d = flow(x + h * c[0], y + h * c[1])
        x, y = (s + h / 6 * (p + 2 * q + 2 * r + t) for s, p, q, r, t in zip((x, y), a, b, c, d, strict=True))
    return pattern(x, y)


def errors(scheme: str, sizes: list[int], duration: float = 0.2) -> list[float]:
    """Mean |error| after steps of half a cell."""
    found = []
    for n in sizes:
        steps = round(2 * n * duration)
        move = Advection(Grid((n, n), 1 / n), duration / steps, scheme, LIKE)
        u, (x, y) = vortices(n), torch.meshgrid(cells(n), cells(n), indexing="ij")
        q = pattern(x, y)[None]
        for _ in range(steps):
            q = move(q, u)
        found.append((q[0] - carried(n, duration)).abs().mean().item())
    return found


def test_bilinear_is_of_first_order_and_maccormack_of_second():
    sizes = [40, 80, 160]
    widths = [1 / n for n in sizes]
    assert slope(widths, errors("bilinear", sizes)) == pytest.approx(1, abs=0.1)
    second = errors("maccormack", sizes)
    assert slope(widths, second) == pytest.approx(2, abs=0.2)  # its clamp acts at crests
    assert second[-1] < 0.05 * errors("bilinear", sizes[-1:])[0]


def test_smoke_of_one_density_around_rocks_stays_so():
    """Solid cells count for nothing in means, and hold nothing."""
    solid = torch.zeros(12, 9, dtype=torch.bool)
    solid[3:7, 2:5] = True
    grid = Grid((12, 9), 0.1, ("periodic", "walled"), solid)
    q = torch.where(solid, 0.0, 1.0).double().expand(1, -1, -1).contiguous()
    moved = Advection(grid, 0.11, "bilinear", LIKE)(q, random(1, 2, 12, 9))
    assert (moved - q).abs().max() < 1e-14


def test_nothing_comes_through_walls():
    """Values beyond a wall are those next to it."""
    grid = Grid((12, 9), 0.1, ("periodic", "walled"))
    q, u = random(1, 12, 9), torch.zeros(1, 2, 12, 9, dtype=torch.float64)
    u[:, 1, :, 1:] = 0.5
    moved = Advection(grid, 0.1, "bilinear", LIKE)(q, u)  # by half a cell
    assert (moved[:, :, 0] - (0.875 * q[:, :, 0] + 0.125 * q[:, :, 0])).abs().max() < 1e-14
    assert (moved[:, :, 4] - 0.5 * (q[:, :, 3] + q[:, :, 4])).abs().max() < 1e-14


@pytest.mark.slow
@pytest.mark.parametrize("walled", [(False, False), (True, False, True)], ids=["2-D", "3-D"])
def test_kernels_compile_for_cuda(walled, tmp_path):
    if not wp.get_cuda_toolkit_version():
        pytest.skip("this build of Warp has no CUDA compiler")
    code = _code(torch.float32, walled)
    (file,) = wp.compile_aot_module(code, arch=80, module_dir=tmp_path, use_ptx=True)
    text = file.read_text()
    for key in wp.get_module(code.__name__).kernels:
        assert f".entry {key}" in text
