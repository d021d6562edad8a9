"""What a bounce leaves of the speed, against integrated bounces; and as a number of a scene."""

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import gradsim as gs
from gradsim.errors import InputError
from gradsim.scene import restitution

SHARES = (1.0, 0.999999, 0.9, 0.7, 0.3, 0.01)
K, M, V = 1e4, 2.0, 1.5


def bounced(force, speed=V):
    """e of m C̈ = −f(C, Ċ) from C = 0 at a speed, to where f or C is 0 again."""
    over = lambda t, y: y[0] if t > 1e-6 else 1.0
    let_go = lambda t, y: force(*y) if t > 1e-6 else 1.0
    over.terminal = let_go.terminal = True
    right = lambda t, y: [y[1], -force(*y) / M]
    end = solve_ivp(right, (0, 1), [0.0, speed], "DOP853", rtol=1e-12, atol=1e-14, events=(over, let_go))
    return -end.y[1, -1] / speed


def test_continuous_law_leaves_what_its_integral_says():
    for a in (0.01, 0.4, 3.0):
        assert bounced(lambda c, v, a=a: K * c * (1 + a * v)) == pytest.approx(
            restitution.of_dissipation(a, V), rel=1e-9
        )


def test_papers_law_leaves_what_its_integral_says():
    """Also overdamped, and with a ground that pulls. A4: φ = π − arctan(2ζw/(1 − 2ζ²)) is 2 arccos ζ."""
    for zeta in (0.05, 0.5, 0.999, 1.001, 2.0):
        c = 2 * zeta * math.sqrt(K * M)
        assert bounced(lambda x, v, c=c: K * x + c * v) == pytest.approx(restitution.of_damping(c, K, M), rel=1e-8)
    zeta, w = 0.3, math.sqrt(1 - 0.09)
    by_arctan = math.exp(-zeta / w * (math.pi - math.atan(2 * zeta * w / (1 - 2 * zeta**2))))
    assert restitution.of_damping(2 * zeta * math.sqrt(K * M), K, M) == pytest.approx(by_arctan, rel=1e-14)
    assert restitution.of_damping(2 * zeta * math.sqrt(K * M), K, M, "paper-adhesive") == pytest.approx(
        math.exp(-math.pi * zeta / w), rel=1e-14
    )


@pytest.mark.parametrize("speed", [0.01, 1.0])
def test_constant_restitution_is_what_its_integral_says_at_every_speed(speed):
    for zeta in (0.01, 0.3, 1.0, 4.0):
        c = 2 * zeta * math.sqrt(K * M)
        force = lambda x, v, c=c: K * x * (1 + c * v / math.hypot(K * x, c * v))
        left = bounced(force, speed)
        assert left == pytest.approx(restitution.of_damping(c, K, M, "constant-restitution"), rel=1e-7)


@pytest.mark.parametrize("e", SHARES)
def test_damping_gives_its_restitution_back(e):
    """To rounding, which is (1 − e) of e where almost nothing is lost."""
    for speed in (0.1, 5.0):
        assert restitution.of_dissipation(restitution.dissipation(e, speed), speed) == pytest.approx(e, rel=1e-14)
    for law in ("paper", "paper-adhesive", "constant-restitution"):
        given = restitution.damping(e, K, M, law)
        assert restitution.of_damping(given, K, M, law) == pytest.approx(e, rel=1e-13)
    assert 1 - e == pytest.approx(2 / 3 * restitution.dissipation(e, 1.0), rel=1e-5) or e < 0.99


def test_critical_damping_is_no_seam():
    near = [restitution.of_damping(2 * z * math.sqrt(K * M), K, M) for z in 1 + np.linspace(-2e-5, 2e-5, 9)]
    np.testing.assert_allclose(np.diff(near), np.diff(near).mean(), rtol=1e-3)
    assert near[4] == pytest.approx(math.exp(-2), rel=1e-12)


@pytest.mark.parametrize("e", [0.0, -0.1, 1.1, math.nan])
def test_restitution_is_above_0_and_at_most_1(e):
    with pytest.raises(InputError, match="above 0 and at most 1"):
        restitution.dissipation(e, 1.0)
    with pytest.raises(InputError, match="above 0 and at most 1"):
        restitution.damping(e, 1.0, 1.0)


def ball(**ground):
    body = {"shape": {"sphere": {"radius": 0.1}}, "mass": M, "position": [0, 0, 0.2], "velocity": [0, 0, -V]}
    timing = {"fps": 10, "frames": 4, "substeps": 2000}
    return gs.Scene.parse({"gravity": 0, "timing": timing, "bodies": {"ball": body}, "ground": ground})


@pytest.mark.parametrize(
    "law",
    [
        {"impact_speed": V},
        {"law": "paper", "impact_mass": M},
        {"law": "paper-adhesive", "impact_mass": M},
        {"law": "constant-restitution", "impact_mass": M},
    ],
)
def test_ball_of_a_scene_bounces_with_the_restitution_that_it_states(law):
    scene = ball(stiffness=K, restitution=0.7, **law)
    assert scene.grounds["ground"].restitution is None  # it has become the law's own number
    v = gs.Model(scene).rollout()["ball"]["v"][0, -1, 2].item()
    assert v == pytest.approx(0.7 * V, rel=2e-3)  # the step is 1/900 of the time of contact
    assert gs.Scene.parse(scene.model_dump(exclude_unset=True)) == scene


@pytest.mark.parametrize(
    "given, words",
    [
        ({"restitution": 0.7}, "ground.restitution: of the law `continuous` needs `impact_speed` [m/s]"),
        ({"restitution": 0.7, "law": "paper"}, "ground.restitution: of the law `paper` needs `impact_mass` [kg]"),
        ({"restitution": 0.7, "impact_speed": 1, "dissipation": 1}, "got `restitution` and `dissipation`; give one"),
        ({"impact_speed": 1}, "ground.impact_speed: is used only with `restitution` and the law `continuous`"),
        (
            {"restitution": 0.7, "impact_speed": 1, "impact_mass": 1},
            "ground.impact_mass: is used only with `restitution`",
        ),
        ({"restitution": 1.2, "impact_speed": 1}, "ground.restitution: got 1.2; expected"),
    ],
)
def test_restitution_is_given_once_and_with_what_its_law_needs(given, words):
    with pytest.raises(InputError) as error:
        ball(**given)
    assert words in str(error.value)
