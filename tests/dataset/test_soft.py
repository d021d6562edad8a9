"""Soft samples: thrown solids and cloths whose known impulse shows their mass."""

from itertools import product

import pytest
import torch
from tolerances import SOLVED, near

from gradsim.dataset import sample
from gradsim.dataset.soft import CLOTHS, DROP, SOLIDS
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.unknowns import Space, Unknown
from gradsim.physics.model import Model
from gradsim.scene import Scene

KINDS = {"deformable": SOLIDS, "cloth": CLOTHS}


@pytest.mark.parametrize("kind", KINDS)
def test_a_soft_sample_follows_from_its_number_and_survives_its_file(kind, tmp_path):
    one = sample(kind, 7, 3)
    assert sample(kind, 7, 3) == one != sample(kind, 7, 4)
    assert {sample(kind, k).object for k in range(20)} == set(KINDS[kind])
    one.true_scene().save(tmp_path / "scene.yaml")
    assert Scene.load(tmp_path / "scene.yaml") == one.true_scene()


@pytest.mark.parametrize("kind", KINDS)
def test_densities_of_a_soft_sample_span_masses_of_2_to_12_kg(kind):
    for number in range(8):
        one = sample(kind, number)
        system = Model(one.scene).systems[0]
        density = Unknown.parse(one.unknowns[0])
        for end, mass in ((density.low, 2), (density.high, 12)):
            values = Model(one.scene).values({density.name: torch.tensor([end], dtype=torch.float64)})
            assert system.mass(values).sum().item() == pytest.approx(mass, rel=1e-5)  # six digits are written


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_soft_samples_are_stable_in_every_corner_of_the_ranges(kind):
    for number in range(60):
        one = sample(kind, number)
        model, space = Model(one.scene), Space(one.scene, one.unknowns)
        corners = torch.tensor(list(product((0, 1), repeat=len(space))))
        values = model.values(space.values(torch.where(corners == 1, space.high, space.low)))
        assert model.dt < model.systems[0].stable_step(values)


@pytest.mark.parametrize("kind", KINDS)
def test_the_impulse_of_a_soft_sample_shows_its_mass_from_the_start(kind):
    """Before anything touches, x = x₀ + (v + J/m) t: the derivative by log m is −J t/m."""
    one = sample(kind, 5)
    first = one.scene.timing.model_copy(update={"frames": 2})
    scene = one.scene.model_copy(update={"timing": first})
    model = Model(scene)
    name = "body.density"
    impulse = model.values()["body.pushes.0.impulse"][0, 0].item()
    density = torch.tensor([one.truth[name]], dtype=torch.float64, requires_grad=True)
    values = {**parameter_values(scene, one.truth), name: density}
    x, mass = model.rollout(values)["body"]["x"], model.systems[0].mass(model.values(values))[0]
    assert DROP[0] - 1e-6 <= x[0, 0, :, 2].min() <= DROP[1] + 1e-6
    centre = (mass.detach() * x[0, 1, :, 0]).sum() / mass.detach().sum()
    (slope,) = torch.autograd.grad(centre, density)
    expected = -impulse / mass.sum() / scene.timing.fps
    assert slope.item() * density.item() == near(expected.item(), SOLVED)
