"""Random numbers in scenes of soft bodies: whatever they are, what is not finite raises, and gradients are finite."""

import soft_cases
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradsim.errors import InputError
from gradsim.physics.model import Divergence, Model

MODELS = {kind: Model(getattr(soft_cases, kind)()) for kind in ("solid", "cloth", "net")}
LEVELS = (0.0, 1e-12, 0.5, 1.0, 5.0)


def _changed(model: Model, name: str, level: float, seed: int) -> torch.Tensor:
    """Another value of a parameter (1, ...), inside its range; 0 where it may be."""
    kind, base = model.kinds[name], model.get_parameter(name).detach()
    if kind.positive:
        return (base * max(level, 0.1))[None]
    noise = torch.randn(base.shape, generator=torch.Generator().manual_seed(seed), dtype=base.dtype)
    return (level * (base + 0.1 * noise)).clamp(kind.lower, kind.upper)[None]


def test_random_soft_scenes_give_finite_gradients_or_an_error_that_says_where():
    outcomes.clear()
    _one_scene()
    assert outcomes.count("finite") > 30, "most scenes are refused"


outcomes: list[str] = []


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(sorted(MODELS)),
    changes=st.dictionaries(st.integers(0, 60), st.sampled_from(LEVELS), min_size=2, max_size=8),
    seed=st.integers(0, 100),
)
def _one_scene(kind, changes, seed):
    model = MODELS[kind]
    names = [name for name in model.kinds if not name.startswith(("camera.", "timing."))]
    new = {names[k % len(names)]: level for k, level in changes.items()}
    values = model.values({name: _changed(model, name, level, seed) for name, level in new.items()})
    values["timing.offset"] = torch.zeros(1, dtype=torch.float64)
    values = {
        name: value.detach().requires_grad_(name not in model.unused_parameters) for name, value in values.items()
    }
    try:
        model.check(values)
        states = model.rollout(values, frames=4).states
    except (InputError, Divergence) as error:
        outcomes.append(type(error).__name__)
        assert any(system.name in str(error) for system in model.systems)
        return
    outcomes.append("finite")
    outputs = [y for own in states.values() for y in own.values()]
    assert all(y.isfinite().all() for y in outputs)
    torch.autograd.backward(outputs, [torch.ones_like(y) for y in outputs])
    wrong = [name for name, value in values.items() if value.grad is not None and not value.grad.isfinite().all()]
    assert not wrong
