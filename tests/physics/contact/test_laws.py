"""Contact laws of a user's file."""

import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim.errors import InputError
from gradsim.physics import Model
from gradsim.physics.contact import constant_restitution, hunt_crossley, laws
from gradsim.scene import Scene, contact

SPRING = '''"""Undamped spring: f_n = k_e C."""

import warp as wp
from gradsim.engine.lanes import *

DAMPING = "dissipation"
ODD = True


@wp.func(inline=True)
def normal_force(gap: Real, rate: Real, stiffness: Real, dissipation: Real) -> Real:
    return stiffness * max(neg(gap), zero(0))


def reference(gap, rate, stiffness, dissipation):
    return stiffness * (-gap).clamp(min=0)
'''


@pytest.fixture
def spring(tmp_path, monkeypatch):
    """The file of a law that is registered as `spring` during a test."""
    monkeypatch.setattr(laws, "LAWS", dict(laws.LAWS))
    for name, number in list(contact.LAWS.items()):
        monkeypatch.setitem(contact.LAWS, name, number)  # undone with what a test adds
    path = tmp_path / "spring_law.py"
    path.write_text(SPRING)
    laws.register("spring", path)
    yield path
    contact.LAWS.pop("spring", None)


def scene(law: str) -> Scene:
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 1.0, "position": [0, 0, 0.3], "velocity": [1, 0, 0]}
    ground = {"law": law, "stiffness": 1e4, "dissipation": 0.0, "friction": 0.4}
    return Scene.parse({"bodies": {"ball": ball}, "ground": ground, "timing": {"frames": 12, "substeps": 64}})


def test_a_registered_law_moves_bodies_by_its_formula(spring):
    """Without damping, Hunt–Crossley is a spring; float64 rounding alone is between them."""
    mine, builtin = (Model(scene(law)).rollout()["ball"]["x"] for law in ("spring", "continuous"))
    assert_near(mine, builtin, ROUNDING)


@pytest.mark.parametrize("rate", [-2.0, -0.3, 0.3, 2.0])
@pytest.mark.parametrize("law", ["continuous", "constant-restitution"])
def test_force_of_an_odd_law_has_odd_powers_of_the_depth_only(law, rate):
    """f(2C) - 2 f(C) is then of third order in C, or nothing; a square would leave one of second order."""
    depth = torch.tensor([2e-5, 1e-5, 4e-6], dtype=torch.float64)
    number = lambda x: torch.tensor(x, dtype=torch.float64)
    module, damping = {"continuous": (hunt_crossley, 0.2), "constant-restitution": (constant_restitution, 50.0)}[law]
    force = lambda c: module.reference(-c, number(rate), number(1e5), number(damping))
    assert laws.is_odd_law(law) and not laws.is_odd_law("paper")
    off = (force(2 * depth) - 2 * force(depth)).abs() / depth.pow(3)
    assert off.max() < 1.2 * off.min() or off.max() * depth.max() ** 2 < 1e-9 * 1e5


def test_a_registered_law_has_gradients(spring):
    model = Model(scene("spring"))
    model.rollout()["ball"]["x"][0, -1, 2].backward()
    assert model.get_parameter("ground.stiffness").grad.abs() > 0
    assert model.get_parameter("ground.dissipation").grad == 0  # the formula does not contain it


def test_restitution_is_not_known_of_a_registered_law(spring):
    with pytest.raises(InputError, match="restitution: is not supported by the law `spring`; give `dissipation`"):
        Scene.parse({"bodies": {}, "ground": {"law": "spring", "restitution": 0.5, "impact_speed": 1.0}})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("def reference", "def other"), "has no `reference`"),
        (('"dissipation"\n', '"drag"\n'), "DAMPING of .* is 'drag'; choose `dissipation`"),
    ],
)
def test_a_file_that_lacks_a_part_is_refused(tmp_path, change, words):
    path = tmp_path / "bad_law.py"
    path.write_text(SPRING.replace(*change))
    with pytest.raises(InputError, match=words):
        laws.register("bad", path)
    assert "bad" not in contact.LAWS


def test_a_name_that_is_taken_is_refused(spring):
    with pytest.raises(InputError, match="there is a contact law 'paper' already"):
        laws.register("paper", spring)
    laws.register("spring", spring)  # the same again is no mistake
