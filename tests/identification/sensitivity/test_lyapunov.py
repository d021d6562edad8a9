"""Growth of errors against motions whose tangents have a closed form."""

import math

import pytest
import torch

from gradsim.identification.sensitivity.lyapunov import Growth, growth
from gradsim.identification.sensitivity.tangents import Scale
from gradsim.physics.model import Model
from gradsim.scene import Scene


def test_a_free_ball_drifts_and_no_more():
    """δx = δx₀ + t δv and δθ = δθ₀ + t δω, so σ = √(1 + t²/τ²): nothing grows exponentially."""
    ball = {"shape": {"sphere": {"radius": 0.2, "subdivisions": 1}}, "mass": 1, "velocity": [1, 2, 3]}
    ball |= {"angular_velocity": [1, -2, 0.5]}
    scene = Scene.parse({"timing": {"fps": 20, "frames": 12, "substeps": 4}, "bodies": {"ball": ball}})
    found = growth(Model(scene))
    assert torch.allclose(found.growth, found.free, rtol=1e-3)  # the faceted ball's inertia is not quite round
    assert found.exponent < 1e-3 and found.forgets is None and not found.warnings


def test_a_pendulum_on_its_head_falls_at_its_rate():
    """About θ = π: δθ'' = λ² δθ with λ² = g L/(L² + 2/5 r²), so δθ = δθ₀ cosh λt + δθ'₀ sinh(λt)/λ."""
    bob = {"kind": "pendulum", "string_length": 0.4, "radius": 0.1, "angle": math.pi}
    model = Model(Scene.parse({"timing": {"fps": 20, "frames": 41, "substeps": 50}, "bodies": {"bob": bob}}))
    rate = math.sqrt(9.81 * 0.5 / (0.5**2 + 0.4 * 0.1**2))
    found = growth(model)
    tau = Scale.of(model, model.values()).time
    t = found.times
    expected = ((rate * t).cosh() ** 2 + ((rate * t).sinh() / (rate * tau)) ** 2).sqrt()
    # θ = π is not exact in binary: the bob leaves it by 1e-16 cosh(λt), which is 1e-12 here
    assert torch.allclose(found.growth, expected, rtol=1e-5)
    assert found.forgets == int((expected * 1e-3 > 1).nonzero()[0])
    assert found.unrepeatable is None
    assert len(found.warnings) == 1 and f"from frame {found.forgets} on the motion forgets" in found.warnings[0]
    assert f"{found.fold_time:.2g} s" in found.warnings[0]


@pytest.mark.parametrize(("precision", "warnings"), [(2.2e-16, 1), (1.2e-7, 2)])
def test_rounding_is_seen_sooner_in_single_precision(precision, warnings):
    times = torch.linspace(0, 2, 41).double()
    found = Growth(times, (5 * times).exp(), torch.ones(41).double(), precision, 1e-3)
    assert found.exponent == pytest.approx(5)
    assert len(found.warnings) == warnings
    assert found.forgets == 28  # e^(5 t) > 1000 from t = 1.38 s on, 0.05 s a frame


def test_an_excursion_that_ends_is_not_forgetting():
    """Errors that are large for a while, as in a contact, and small again after it."""
    sigma = torch.ones(40).double()
    sigma[10:20] = 1e6
    assert Growth(torch.arange(40).double(), sigma, torch.ones(40).double(), 2.2e-16, 1e-3).forgets is None
