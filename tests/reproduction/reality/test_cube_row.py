"""The cube of the league: tosses of its law are fitted and predicted, and bands cover what they say."""

import numpy as np
import pytest
import torch

from gradsim.numerics import rotation
from gradsim_reproduction.real.cube_predictions import SEEN
from gradsim_reproduction.real.cube_recordings import FPS, Toss
from gradsim_reproduction.reality import cube, ensemble

TOSSES, FRAMES = 6, 60
LAW = cube.Contact("continuous")
TRUTH = np.array([[0.5, 0.6, 0.45, 0.6, 0.5, 0.5]])


def _starts() -> list[dict[str, torch.Tensor]]:
    rng = np.random.default_rng(0)
    zeros = torch.zeros(3).double()
    starts = []
    for _ in range(TOSSES):
        position = torch.tensor([0.0, 0.0, rng.uniform(0.2, 0.3)]).double()
        velocity = torch.tensor([rng.uniform(0.5, 1.0), rng.uniform(-0.3, 0.3), -0.5]).double()
        state = {"position": position, "rotation_vector": torch.tensor(rng.normal(0, 1, 3)), "velocity": velocity}
        state["angular_velocity"] = torch.tensor(rng.normal(0, 3, 3))
        more = {"position_by_gravity": zeros, "velocity_by_gravity": zeros}
        starts.append({f"cube.{key}": y for key, y in state.items()} | more)
    return starts


@pytest.fixture(scope="module")
def tosses() -> list[Toss]:
    """Made by the law, with the spin that a cube keeps in flight."""
    starts = _starts()
    x = LAW.predict(TRUTH, starts, FRAMES)[0]
    times = torch.arange(FRAMES).double()[:, None] / FPS
    turned = [rotation.exponential(times * start["cube.angular_velocity"]) for start in starts]
    first = [rotation.exponential(start["cube.rotation_vector"]) for start in starts]
    return [Toss(str(k), x[k], rotation.multiply(turned[k], first[k].expand(FRAMES, 4))) for k in range(TOSSES)]


def test_start_of_a_flight_is_that_of_its_first_frames(tosses):
    """The parabola holds to the error of semi-implicit steps, ½ g t h."""
    g = LAW.numbers(TRUTH)["gravity"][0]
    for toss, start, exact in zip(
        tosses, cube.flights(tosses, 1, (0.0, 0.0), np.random.default_rng(0)), _starts(), strict=True
    ):
        step = 1 / (FPS * cube.SUBSTEPS)
        position = start["cube.position"] + g * start["position_by_gravity"]
        assert torch.linalg.vector_norm(position - exact["cube.position"]) < g * step * SEEN / FPS
        torch.testing.assert_close(start["cube.angular_velocity"], exact["cube.angular_velocity"], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(start["cube.rotation_vector"], exact["cube.rotation_vector"], rtol=0, atol=1e-9)
        assert toss.x.shape == (FRAMES, 3)


def test_search_leads_down_to_numbers_that_predict(tosses, monkeypatch):
    monkeypatch.setattr(cube, "POPULATION", 96)
    members, loss = cube.search(LAW, tosses[:5], 12, np.random.default_rng(1))
    assert loss < 5e-3
    x = LAW.predict(members[:1], cube.flights(tosses[5:], 1, (0.0, 0.0), np.random.default_rng(0)), FRAMES)
    still = torch.linalg.vector_norm(tosses[5].x[SEEN:] - tosses[5].x[SEEN - 1], dim=1).mean().item()
    assert cube.distances(x, tosses[5:])[0, 0] < 0.2 * still
    numbers = LAW.numbers(members)
    assert all(
        (low <= numbers[name]).all() and (numbers[name] <= high).all() for name, (low, high) in LAW.ranges.items()
    )


def test_bands_widened_on_tosses_cover_their_share_of_them():
    rng = torch.Generator().manual_seed(0)
    x = 0.02 * torch.randn(200, FRAMES, 3, generator=rng).double()
    wide = [0.05 * torch.randn(FRAMES, 3, generator=rng).double() for _ in range(5)]
    factor = ensemble.widening([x] * 5, wide)
    inside = torch.cat([(ensemble.scores(x, y) <= factor).flatten() for y in wide]).double().mean().item()
    assert ensemble.BAND - 2e-3 < inside < ensemble.BAND + 5e-3  # a little more, for further tosses
    assert factor == pytest.approx(2.5, rel=0.1)  # both are normal


def test_bands_of_few_runs_allow_for_how_far_runs_scatter():
    """Errors of runs are normal, of sizes that are log-normal: bands from eight runs cover 95 % of the coordinates of further ones, and a pooled quantile less."""
    generator = torch.Generator().manual_seed(2)
    normal = lambda *shape: torch.randn(*shape, generator=generator).double()
    members, frames = normal(100, 1, 1).expand(100, 20, 3), (20, 3)
    covered, pooled = [], []
    for _ in range(40):
        runs = [normal(*frames) * (0.7 * normal(1)).exp() for _ in range(28)]
        factor = ensemble.widening([members] * 8, runs[:8])
        apart = torch.cat([ensemble.scores(members, run).flatten() for run in runs[8:]])
        covered.append(float((apart <= factor).double().mean()))
        seen = torch.cat([ensemble.scores(members, run).flatten() for run in runs[:8]])
        pooled.append(float((apart <= seen.quantile(0.95)).double().mean()))
    assert 0.94 < np.mean(covered) < 0.97
    assert np.mean(pooled) < np.mean(covered) - 0.01


def test_cross_entropy_finds_the_least_of_a_valley():
    least = np.array([0.3, 0.6, 0.45])
    loss = lambda u: ((u - least) ** 2).sum(1) + 5 * (u[:, 0] - least[0] - u[:, 1] + least[1]) ** 2
    members, best = ensemble.cross_entropy(loss, 3, 64, 12, 40, np.random.default_rng(0))
    assert np.abs(members[0] - least).max() < 0.01
    assert best == loss(members[:1])[0] == loss(members).min()


def test_errors_of_a_prediction_that_is_right_are_zero_and_of_trivial_ones_exact(tosses):
    toss = tosses[0]
    right = cube._prediction(toss, toss.x.expand(9, -1, -1), 1.0)
    assert right["error_mm"] == right["nominal_mm"] == 0 and right["coverage"] == 1
    falling = torch.linalg.vector_norm(toss.x[SEEN:] - toss.x[SEEN - 1], dim=1).mean().item()
    assert right["still_mm"] == pytest.approx(1e3 * falling)
    shifted = cube._prediction(toss, toss.x.expand(9, -1, -1) + torch.tensor([0.003, 0.0, 0.004]).double(), 1.0)
    assert shifted["error_mm"] == pytest.approx(5.0)
    assert shifted["quarters_mm"] == pytest.approx([5.0] * 4)
