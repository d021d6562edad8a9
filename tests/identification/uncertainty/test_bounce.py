"""Restitution of an estimated damping, whose limit for small losses is e = exp(−π ζ)."""

import math
from types import SimpleNamespace

import pytest
import torch

from gradsim.identification.uncertainty.bounce import restitution
from gradsim.identification.unknowns import Space
from gradsim.scene import Scene

STIFFNESS, MASS, DAMPING = 1e6, 2.0, 2.0


def scene(law: str = "constant-restitution", **more) -> Scene:
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": MASS, "position": [0, 0, 1]}
    ground = {"law": law, "stiffness": STIFFNESS, "damping": 5.0}
    return Scene.parse({"timing": {"fps": 30, "frames": 3}, "bodies": {"ball": ball, **more}, "ground": ground})


def shares(one: Scene, names: list[str], numbers: list[float], relative: float) -> dict:
    space = Space(one, names)
    problem = SimpleNamespace(model=SimpleNamespace(scene=one), space=space)
    u = space.inner(torch.tensor([numbers]).double())[0]
    return restitution(problem, u, torch.eye(len(names)).double() * relative**2)  # pyright: ignore[reportArgumentType]


def test_a_damping_known_to_a_percent_is_a_restitution_known_to_its_share():
    zeta = DAMPING / (2 * math.sqrt(STIFFNESS * MASS))
    share = shares(scene(), ["ground.damping:1:4"], [DAMPING], 0.01)["ground"]
    assert share["value"] == pytest.approx(math.exp(-math.pi * zeta), rel=1e-5)
    assert share["std"] == pytest.approx(0.01 * math.pi * zeta * share["value"], rel=0.01)


def test_a_mass_counts_half_as_a_damping_does():
    by_mass, by_damping = (
        shares(scene(), [name], [number], 0.01)["ground"]["std"]
        for name, number in (("ball.mass:1:4", MASS), ("ground.damping:1:10", 5.0))
    )
    assert by_mass == pytest.approx(by_damping / 2, rel=1e-3)


def test_where_it_is_no_constant_or_not_that_of_one_body_there_is_none():
    other = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0, "position": [1, 0, 1]}
    assert not shares(scene("paper"), ["ground.damping:1:4"], [DAMPING], 0.01)
    assert not shares(scene(other=other), ["ground.damping:1:4"], [DAMPING], 0.01)
    assert not shares(scene(), ["ball.velocity.x:0:1"], [0.5], 0.01)
