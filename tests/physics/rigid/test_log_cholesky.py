"""Inertias of bodies by log-Cholesky numbers: motion, gradients, export and errors."""

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from gradsim.errors import InputError
from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.parameters import resolve

NUMBERS = (0.2, -0.1, 0.15, 0.3, -0.2, 0.1)


def tumbling(numbers=None, **body) -> Scene:
    """A brick that tumbles without gravity."""
    brick = {"shape": {"box": {"size": [0.1, 0.2, 0.35]}}, "mass": 0.8, "angular_velocity": [2.0, 3.0, -1.0]} | body
    if numbers is not None:
        brick["inertia_log_cholesky"] = list(numbers)
    return Scene.parse({"gravity": [0, 0, 0], "timing": {"fps": 60, "frames": 40}, "bodies": {"brick": brick}})


def orientations(scene: Scene, **values) -> torch.Tensor:
    with torch.no_grad():
        return Model(scene, dtype=torch.float64).rollout(values).states["brick"]["q"][0]


def test_zeros_move_as_uniform_density_and_other_numbers_as_the_moments_that_they_mean():
    assert torch.allclose(orientations(tumbling([0.0] * 6)), orientations(tumbling()), atol=1e-13)
    scene = tumbling(NUMBERS)
    model = Model(scene, dtype=torch.float64)
    inertia = model.systems[0].inertia(model.values({}))[0].detach()
    moments, axes = np.linalg.eigh(inertia.numpy())
    axes = axes * np.sign(np.linalg.det(axes))
    stated = tumbling(inertia=moments.tolist(), inertia_quat_xyzw=Rotation.from_matrix(axes).as_quat().tolist())
    assert torch.allclose(orientations(scene), orientations(stated), atol=1e-10)
    assert (orientations(scene) - orientations(tumbling())).abs().max() > 0.05


def test_motion_is_differentiable_by_the_numbers():
    scene, x = tumbling(NUMBERS), torch.tensor([NUMBERS], dtype=torch.float64, requires_grad=True)
    model = Model(scene, dtype=torch.float64)
    weights = torch.tensor(np.random.default_rng(0).standard_normal((40, 4)))
    value = lambda y: (model.rollout({"brick.inertia_log_cholesky": y}).states["brick"]["q"][0] * weights).sum()
    (gradient,) = torch.autograd.grad(value(x), x)
    h = 1e-5
    with torch.no_grad():
        ends = [(value(x + h * e) - value(x - h * e)) / (2 * h) for e in torch.eye(6).double()]
    assert torch.allclose(gradient[0], torch.stack(ends), rtol=1e-6, atol=1e-7)
    along = {"brick.inertia_log_cholesky": torch.ones(1, 6).double()}
    with torch.no_grad():
        _, tangent = model.tangent(model.values({}), along, 40)
    forward = (tangent.states["brick"]["q"][0] * weights).sum()
    assert forward.item() == pytest.approx(gradient.sum().item(), rel=1e-9)


def test_numbers_leave_for_other_simulators_as_the_inertia_that_they_mean():
    scene = tumbling(NUMBERS, scale=1.3)
    model = Model(scene, dtype=torch.float64)
    exported = twin_of(scene).links["brick"].inertia
    np.testing.assert_allclose(exported, model.systems[0].inertia(model.values({}))[0].detach(), rtol=1e-6)


def test_numbers_are_named_and_not_stated_with_moments():
    assert resolve(tumbling(NUMBERS), "brick.inertia_log_cholesky.s23") == ("brick.inertia_log_cholesky", 4)
    with pytest.raises(InputError, match="give one of them"):
        tumbling(NUMBERS, inertia=[0.1, 0.1, 0.1])
    with pytest.raises(InputError, match=r"write `inertia_log_cholesky: \[0, 0"):
        resolve(tumbling(), "brick.inertia_log_cholesky.d1")
