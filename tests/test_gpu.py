"""The CPU's results on a GPU: motion and gradients of every scene of the library, pictures and smoke, in float64.

Sums meet in another order there, so results agree to rounding, and not to the bit.
"""

import pytest
import torch

import gradsim as gs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU"),
    pytest.mark.timeout(600),  # kernels of joints compile for minutes
]
FRAMES = 4
RENDERERS = ("aa", "softras", "dibr")


def rolled_out(model, worlds=3):
    """Trajectory of some worlds whose gravity differs, and gradients of a weighted sum of its states."""
    values = model.values()
    gravity = values["gravity"] * torch.linspace(1, 1.1, worlds, device=values["gravity"].device)[:, None].double()
    given = {name: x.detach().clone().requires_grad_() for name, x in values.items() if name != "gravity"}
    given["gravity"] = gravity.detach().requires_grad_()
    trajectory = model.rollout(given, frames=FRAMES)
    generator = torch.Generator().manual_seed(0)
    total = 0.0
    for state in trajectory.states.values():
        for y in state.values():
            total = total + (y * torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y.device)).sum()
    gradients = torch.autograd.grad(total, list(given.values()), allow_unused=True)
    states = {f"{body}.{key}": y for body, state in trajectory.states.items() for key, y in state.items()}
    return states, dict(zip(given, gradients, strict=True))


def assert_alike(a, b, rtol, name):
    """Whether two tensors agree in units of the largest entry; below 1e-12 they are rounding errors of what is zero."""
    assert (a is None) == (b is None), name
    if a is not None:
        torch.testing.assert_close(
            a.cpu(), b, rtol=0, atol=max(1e-12, rtol * b.abs().max().item()), msg=lambda m: f"{name}: {m}"
        )


@pytest.mark.parametrize("name", gs.Scene.library_names())
def test_scenes_move_as_on_a_cpu(name):
    scene = gs.Scene.library(name)
    states, gradients = rolled_out(gs.Model(scene, device="cuda"))
    expected, slopes = rolled_out(gs.Model(scene))
    for key, y in expected.items():
        assert_alike(states[key], y, 1e-9, key)
    for key, g in slopes.items():
        assert_alike(gradients[key], g, 1e-7, key)
    assert any(g is not None and g.abs().max() > 0 for g in slopes.values())


@pytest.mark.parametrize("rasterizer", RENDERERS)
@pytest.mark.parametrize("name", ["cube", "ball", "flag", "soft_ball"])
def test_pictures_are_those_of_a_cpu(name, rasterizer):
    scene = gs.Scene.library(name)
    pictures = []
    for device in ("cuda", "cpu"):
        model = gs.Model(scene, device=device)
        with torch.no_grad():
            vertices = gs.Model(scene).rollout(frames=3).surface.vertices
        vertices = vertices.to(device).requires_grad_()
        like = model.rollout(frames=2).surface
        render, surface = gs.Renderer.of(scene, rasterizer), gs.Surface(vertices, like.parts)
        image = torch.cat([render(surface, model.values()).flatten(), render.alpha(surface, model.values()).flatten()])
        weights = torch.randn(image.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
        (slope,) = torch.autograd.grad((image * weights).sum(), vertices)
        pictures.append((image.detach(), slope))
    (image, slope), (expected, wanted) = pictures
    assert_alike(image, expected, 1e-9, "image")
    assert_alike(slope, wanted, 1e-6, "slope")
    assert wanted.abs().max() > 0


@pytest.mark.parametrize("advection", ["bilinear", "maccormack"])
def test_smoke_moves_as_on_a_cpu(advection):
    results = []
    for device in ("cuda", "cpu"):
        smoke = gs.Smoke(
            (24, 20),
            0.1,
            0.05,
            buoyancy=(-1.0, 0.3),
            viscosity=1e-3,
            boundary="walled",
            advection=advection,
            dtype=torch.float64,
            device=device,
        )
        density = torch.zeros(24, 20, dtype=torch.float64)
        density[14:20, 6:13] = 1
        density = density.to(device).requires_grad_()
        plume = smoke.rollout(density=density, frames=12)
        (slope,) = torch.autograd.grad(plume.density[:, -1].square().sum(), density)
        results.append((plume.density.detach(), slope))
    (moved, slope), (expected, wanted) = results
    assert_alike(moved, expected, 1e-9, "density")
    assert_alike(slope, wanted, 1e-7, "slope")


def test_a_model_that_moves_there_and_back_rolls_out_alike():
    model = gs.Model(gs.Scene.library("cube"))
    expected = model.rollout(frames=FRAMES)["cube"]["x"]
    assert_alike(model.to("cuda").rollout(frames=FRAMES)["cube"]["x"], expected, 1e-10, "x")
    torch.testing.assert_close(model.to("cpu").rollout(frames=FRAMES)["cube"]["x"], expected, rtol=0, atol=0)
