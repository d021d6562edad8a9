"""Tangents against secants where the answer is known: a smooth swing, and balls that bounce."""

import pytest
from checks import slope
from tolerances import ROUNDING, near

from gradsim.identification.gradients.secant_audit import WIDTHS, audit
from gradsim.identification.sensitivity.directions import of_model
from gradsim.physics.model import Model
from gradsim.scene import Scene


def audited(model: Model, names: list[str], loss=None):
    values = {name: v.detach() for name, v in model.values().items()}
    return audit(model, values, of_model(model, names, {}), model.scene.timing.frames, loss=loss)


def bounce(substeps: int, **law) -> Model:
    """The ball of docs/theory/contact.md: 2 kg, 3 m/s, radius 0.1 m; its tangent by z(0) is −2.6 and its trend −0.5."""
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 2, "position": [0, 0, 0.22], "velocity": [0, 0, -3]}
    timing = {"fps": 10, "frames": 2, "substeps": substeps}
    ground = {"stiffness": 1e5, **law}
    return Model(Scene.parse({"gravity": 0, "timing": timing, "bodies": {"ball": ball}, "ground": ground}))


def test_secants_of_a_smooth_motion_approach_the_tangent_as_the_square_of_their_width():
    bob = {"kind": "pendulum", "string_length": 0.5, "radius": 0.1, "angle": 1.0}
    model = Model(Scene.parse({"timing": {"fps": 20, "frames": 20, "substeps": 20}, "bodies": {"bob": bob}}))
    found = audited(model, ["bob.string_length"])
    wide = [k for k, w in enumerate(WIDTHS) if 1e-4 < w < 0.1]  # rounding below, higher orders above
    assert slope([WIDTHS[k] for k in wide], found.difference[0, wide].tolist()) == pytest.approx(2.0, abs=0.02)
    assert found.holds == [WIDTHS[-1]]


@pytest.mark.parametrize("substeps", [192, 1536])
def test_tangent_of_a_jumping_force_holds_in_one_tooth(substeps):
    """A tooth is one step's travel wide: 3 m/s · h, in units of the radius. The slopes are those of docs/theory/contact.md."""
    found = audited(bounce(substeps, law="paper", damping=200), ["ball.position.z"])
    tooth = 3 / (10 * substeps) / 0.1
    assert 0.02 * tooth < found.holds[0] < tooth
    assert found.tangent[0].item() / found.trend(0.1)[0] > 2


def test_tangent_of_a_continuous_force_is_the_trend():
    """To 3 % at h = 1/15360 s: −0.625 against −0.620."""
    found = audited(bounce(1536, dissipation=0.3), ["ball.position.z"])
    assert found.holds[0] > 0.05
    assert found.tangent[0].item() == pytest.approx(found.trend(0.1)[0], rel=0.03)


def test_what_moves_nothing_agrees_everywhere():
    found = audited(bounce(192, dissipation=0.3), ["ground.friction"])
    assert (found.difference == 0).all() and found.holds == [WIDTHS[-1]]


def test_a_loss_is_audited_with_the_motion():
    """∂z²/∂z₀ = 2 z ∂z/∂z₀, and the loss sees the mass directly too."""
    model = bounce(192, dissipation=0.3)
    z = lambda t: t["ball"]["x"][0, -1, 2]
    plain, square = (audited(model, ["ball.position.z"], loss) for loss in (z, lambda t: z(t) ** 2))
    end = z(model.rollout()).item()
    assert square.loss_tangent is not None and plain.loss_tangent is not None and square.loss_secant is not None
    assert square.loss_tangent.item() == near(2 * end * plain.loss_tangent.item(), ROUNDING)
    assert square.loss_secant[0, 4].item() == pytest.approx(square.loss_tangent.item(), rel=1e-3)
    mass = audited(model, ["ball.mass"], lambda t: t.values["ball.mass"][0] ** 2 + 0 * z(t))
    assert mass.loss_tangent is not None and mass.loss_tangent.item() == pytest.approx(2 * 2.0**2)
