"""Masks of cameras with a lens and a shutter: costs, and derivatives by adjoints, tangents and differences."""

import pytest
import torch
from scipy.spatial.transform import Rotation
from tolerances import SOLVED, near

import gradsim as gs
from gradsim.identification.observation.base import Masks
from gradsim.identification.problem import Problem
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes

FRAMES, SIDE = 4, 48
TURN = 0.03, -0.02, 0.05  # of the camera [rad]
OPTICS = {
    "distortion": {"distortion": [-0.2, 0.05, 1e-3, -2e-3, 0.01]},
    "fisheye": {"fisheye": [0.1, 0.05, 0.01, 0.0]},
    "readout": {"readout": 0.02},
    "exposure": {"exposure": 0.02, "instants": 3},
    "all": {"readout": -0.01, "scan": "columns", "exposure": 0.015, "instants": 2, "distortion": [-0.2, 0.05, 0, 0, 0]},
}
VALUES = {
    "readout": "-0.1:0.1",
    "exposure": "0:0.1",
    "distortion.k1": "-1:1",
    "distortion.p1": "-1:1",
    "fisheye.k1": "-1:1",
}


def problem(optics, masks=None):
    """A tilted cube that flies and spins, the numbers of the camera unknown, and masks that are not those of the answer."""
    content = gs.Scene.library("cube").model_dump(exclude_unset=True)
    content["camera"] = {**content["camera"], "size": (SIDE, SIDE), **optics}
    content["timing"] = {"fps": 30, "frames": FRAMES}
    scene = gs.Scene.parse(content)
    names = [f"camera.{key}:{span}" for key, span in VALUES.items() if key.partition(".")[0] in optics]
    names += ["cube.velocity.x:-3:5", "cube.angular_velocity.y:-5:5", "camera.focal:20:200", "camera.translation.z:2:8"]
    names[-2:-2] = [f"camera.rotation_vector.{axis}:-0.5:0.5" for axis in "xyz"]
    model, space, view = Model(scene), Space(scene, names), Silhouettes.of(scene)
    numbers = [*(number(scene, name) for name in names[:-7]), 1.5, 2.5, *TURN, 60.0, 4.4]
    u = space.inner(torch.tensor([numbers], dtype=torch.float64))
    if masks is None:
        values = model.values(space.values(u + 0.02))
        masks = Masks(torch.zeros(FRAMES, SIDE, SIDE), 1.0, view).image(model.rollout_unchecked(values, FRAMES))
    return Problem(model, Masks(masks, 0.1, view), space), u


def number(scene, name):
    key, _, part = name.partition(":")[0].removeprefix("camera.").partition(".")
    value = getattr(scene.camera, key)
    return value[["k1", "k2", "p1", "p2", "k3"].index(part)] if part else value


@pytest.mark.parametrize("optics", OPTICS)
@pytest.mark.parametrize("residual", ["pixels", "cdf"])
def test_gradient_is_the_central_difference_and_the_adjoint(optics, residual):
    least, u = problem(OPTICS[optics])
    cost, _, gradient = least.linearize(u, FRAMES, residual)
    assert least.cost(u, FRAMES, residual).item() == near(cost.item(), SOLVED)
    free = u.clone().requires_grad_()
    square, _ = least.sum_of_squares(free, residual)
    (adjoint,) = torch.autograd.grad(square.sum(), free)
    assert (adjoint / 2).tolist()[0] == near(gradient.tolist()[0], SOLVED)
    h, differences = 1e-5, []
    for k in range(len(least.space)):
        step = torch.zeros_like(u)
        step[0, k] = h
        at = lambda e, step=step: least.cost(u + e * step, FRAMES, residual).item()
        differences.append((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (24 * h))
    # rounding of the cost over the step, against the largest slope
    assert differences == pytest.approx(gradient.tolist()[0], rel=1e-6, abs=1e-8 * gradient.abs().max().item())


@pytest.mark.parametrize("optics", ["distortion", "readout", "exposure"])
def test_derivatives_where_only_lens_or_shutter_of_the_camera_is_unknown(optics):
    """Rows of the derivatives by other unknowns are those of a problem that has the focal length and the place as well."""
    whole, u = problem(OPTICS[optics])
    names = [
        unknown
        for unknown in whole.space.unknowns
        if not unknown.name.startswith(("camera.focal", "camera.translation", "camera.rotation_vector"))
    ]
    content = whole.model.scene.model_dump(exclude_unset=True)
    content["camera"].pop("look_at")
    _, R, t = whole.model.scene.camera.matrices()
    R = Rotation.from_rotvec(TURN).as_matrix() @ R
    scene = gs.Scene.parse(content | {"camera": content["camera"] | {"R": R, "t": [t[0], t[1], 4.4], "focal": 60.0}})
    part = Problem(Model(scene), Masks(whole.observation.masks, 0.1, Silhouettes.of(scene)), Space(scene, names))
    expected, got = whole.linearize(u, FRAMES)[2][0, :-5], part.linearize(u[:, :-5], FRAMES)[2][0]
    assert got.tolist() == near(expected.tolist(), SOLVED)


def test_one_step_of_masks_of_several_colors_is_that_of_one():
    """Bodies of one color by `LabelledMasks` with a lens and a shutter are the same images."""
    from gradsim.identification.observation.labelled_masks import LabelledMasks

    least, u = problem(OPTICS["all"])
    data = least.observation
    labelled = LabelledMasks(data.masks[:, None], [0.1], [["cube"]], data.silhouettes, noisy=False)
    both = least.with_observation(labelled)
    one, other = least.linearize(u, FRAMES), both.linearize(u, FRAMES)
    assert other[0].item() == near(one[0].item(), SOLVED)
    assert other[2].tolist()[0] == near(one[2].tolist()[0], SOLVED)


@pytest.mark.parametrize("optics", ["distortion", "all"])
def test_an_image_by_kernels_is_the_one_that_has_derivatives(optics):
    least, u = problem(OPTICS[optics])
    trajectory = least.model.rollout_unchecked(least.model.values(least.space.values(u)), FRAMES)
    image = least.observation.image(trajectory)
    union = least.observation.silhouettes.union(trajectory.surface, trajectory.values)[0]
    assert (image - union).abs().max() < 1e-9  # paths between instants by the same parabolas
