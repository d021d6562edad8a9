"""Steps of rigid samples keep the stiffest, lightest corner of the ranges stable, and are no finer than that asks for."""

import numpy as np
import pytest
import torch

from gradsim.dataset import sample
from gradsim.dataset.rigid import LONGEST_STEP, substeps
from gradsim.geometry import mesh as meshes
from gradsim.physics.model import Model


def test_a_box_on_a_face_has_the_bound_of_the_formula():
    """Without friction, n k h²/m + 2 n k_d h/m = 4, n = 6: rocking on four corners, (a/2)² 4 k / (m a²/6) = 6 k/m."""
    cube = meshes.box((0.5, 0.5, 0.5))
    inertia = np.eye(3) * 0.5**2 / 6
    mass, stiffness, damping = 2.0, 5e5, 100.0
    a, b = 6 * stiffness / mass, 12 * damping / mass
    longest = (-b + np.sqrt(b * b + 16 * a)) / (2 * a)
    count = substeps(cube, inertia, mass, stiffness, damping, 0.0, 30)
    assert count % 8 == 0 and 0 <= count - 1 / (30 * LONGEST_STEP * longest) < 8


@pytest.mark.parametrize("number", [1, 11, 13])  # cylinder, mug, airplane
def test_the_worst_corner_gains_no_energy(number):
    one = sample("rigid", number)
    model = Model(one.scene)
    corner = {"body.mass": 2.0, "ground.stiffness": 5e5, "ground.damping": 200.0, "ground.friction_stiffness": 200.0}
    with torch.no_grad():
        body = model.rollout({name: torch.tensor([value]).double() for name, value in corner.items()})["body"]
    values = model.values({"body.mass": torch.tensor([2.0]).double()})
    spin = model.systems[0].spin(body["q"], body["l"], values)
    energy = 2.0 * (body["v"].square().sum(-1) / 2 + 9.81 * body["x"][..., 2]) + (spin * body["l"]).sum(-1) / 2
    after = energy[0, 1:]  # the push is in the first step
    assert (after.cummax(0).values - after[0]).max() < 0.02 * after[0]
    assert after[-1] < 0.9 * after[0]
