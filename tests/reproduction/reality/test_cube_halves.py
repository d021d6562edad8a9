"""Halves of the tosses of a cube: χ² of their differences, and numbers of tosses that the law moves."""

import numpy as np
import pytest
import torch

from gradsim.identification.unknowns import Space
from gradsim_reproduction.real.cube import UNKNOWNS, model, scene
from gradsim_reproduction.real.cube_recordings import Toss
from gradsim_reproduction.reality import cube_halves

TRUTH = {
    "ground.stiffness": 2e4,
    "ground.dissipation": 1.5,
    "ground.friction_stiffness": 40.0,
    "ground.friction": 0.2,
    "gravity.z": -9.7,
    "ground.height": 0.001,
}
FRAMES, COUNT = 70, 4


def test_differences_count_by_their_variance():
    one = {"u": [0.0] * 6, "std": [3.0, 1, 1, 1, 1, 1]}
    other = {"u": [10.0, 0, 0, 0, 0, 1], "std": [4.0, 1, 1, 1, 1, 1]}
    chi2 = cube_halves.chi2_by_number([(one, other), (one, one)])
    assert list(chi2) == list(TRUTH)
    assert chi2["ground.stiffness"] == pytest.approx(2.0) and chi2["ground.height"] == pytest.approx(0.25)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_numbers_of_tosses_that_the_law_moves_come_back():
    space = Space(scene(1), UNKNOWNS[1:])
    cube, rng = model(space, FRAMES), np.random.default_rng(0)
    start = lambda low, high: torch.tensor(rng.uniform(low, high, (COUNT, 3)))
    values = {name: torch.full((COUNT,), y).double() for name, y in TRUTH.items() if name != "gravity.z"}
    values["gravity"] = torch.tensor([0, 0, TRUTH["gravity.z"]]).double().expand(COUNT, 3)
    values["cube.position"] = start([-0.1, -0.1, 0.15], [0.1, 0.1, 0.25])
    values["cube.rotation_vector"] = start(-1.5, 1.5)
    values["cube.velocity"] = start([0.3, -0.3, -0.5], [0.8, 0.3, 0.0])
    values["cube.angular_velocity"] = start(-5, 5)
    states = cube.rollout_unchecked(cube.values(values), FRAMES)["cube"]
    noisy = lambda y, size: y.detach() + size * torch.tensor(rng.standard_normal(y.shape))
    x, q = noisy(states["x"], 1e-4), torch.nn.functional.normalize(noisy(states["q"], 2e-4), dim=-1)
    tosses = [Toss(str(k), x[k], q[k]) for k in range(COUNT)]
    answer = cube_halves.estimate(tosses, cube_halves.QUICK, np.random.default_rng(1))
    off = (torch.tensor(answer["u"]) - space.inner(torch.tensor(list(TRUTH.values())).double())).abs()
    assert (off <= 5 * torch.tensor(answer["std"])).all()
    assert off[3] < 0.05  # friction, to 5 %
