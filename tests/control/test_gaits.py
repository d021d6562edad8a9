"""A steered gait: it begins as an open loop, turns behind the goal, and rests there."""

import pytest
import torch

from gradsim.control.policies import Gait, Sinusoids, mirror_weights
from gradsim.errors import InputError

SEEN, TIMES = 7, torch.tensor([0.3, 1.1], dtype=torch.float64)


def walking() -> Sinusoids:
    return Sinusoids(5, phases=4, frequency=6.0, seed=2, start=0.4)


def seen(away: float, worlds: int = 3) -> torch.Tensor:
    """Observations whose second number says how far beyond the goal."""
    found = torch.randn(worlds, SEEN, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    found[:, 1] = away
    return found


def test_far_before_the_goal_it_begins_as_the_open_loop_behind_it_as_the_way_back_at_it_as_rest():
    ahead, behind = walking(), Sinusoids(5, phases=4, frequency=6.0, seed=9, start=0.4)
    policy = Gait(SEEN, ahead, behind.weight, axis=1, near=0.5)
    for away, expected in ((-0.5, ahead(TIMES)), (-7.0, ahead(TIMES)), (0.6, behind(TIMES)), (0.0, 0 * ahead(TIMES))):
        u = policy(TIMES, seen(away))
        assert u.shape == (3, 2, 5) and torch.allclose(u, expected.expand(3, 2, 5), atol=1e-14)
    half = torch.atanh(policy(TIMES, seen(-0.25)))
    assert torch.allclose(half, 0.5 * torch.atanh(ahead(TIMES)).expand(3, 2, 5))


def test_every_weight_learns_and_what_is_seen_then_matters():
    policy = Gait(SEEN, walking(), axis=1, seed=1)
    with torch.no_grad():
        for name in ("mix", "posture"):
            weight = policy.get_parameter(name)
            assert not weight.any()
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64))
    u = policy(TIMES, seen(0.0))
    assert not torch.allclose(u[0], u[1], atol=0.01)
    for away in (-0.1, 0.1):
        (policy(TIMES, seen(away)) - 1).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in policy.parameters())
    again = Gait(SEEN, walking(), axis=1, seed=8)
    again.load_state_dict(policy.state_dict())
    assert torch.equal(again(TIMES, seen(0.2)), policy(TIMES, seen(0.2)))


def test_a_mirrored_gait_is_that_of_the_mirrored_body():
    right = torch.tensor([[1.0, 0, 0.2], [0.5, 0.1, -0.3]], dtype=torch.float64)
    middles = torch.cat([right, right * torch.tensor([-1.0, 1, 1])])
    weight = torch.arange(8.0).reshape(4, 2)
    assert mirror_weights(weight, middles).tolist() == weight[[2, 3, 0, 1]].tolist()
    with pytest.raises(InputError, match="not its own mirror image along axis 2"):
        mirror_weights(weight, middles, axis=2)


def test_mistakes_are_refused():
    with pytest.raises(InputError, match="observation 7; there are 7"):
        Gait(SEEN, walking(), axis=7)
    with pytest.raises(InputError, match=r"way back has weights \(3, 4\); expected .* \(5, 4\)"):
        Gait(SEEN, walking(), torch.zeros(3, 4))
    with pytest.raises(InputError, match="near"):
        Gait(SEEN, walking(), near=0.0)
