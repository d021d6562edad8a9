"""The two links of the league: starts and geometry are those of the model, and tosses of its law are predicted."""

import numpy as np
import pytest
import torch

from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim_reproduction.reality import hinge

FRAMES = 60
TRUTH = np.array([[0.5, 0.6, 0.6, 0.5, 0.6, 0.5, 0.6, 0.5, 0.5]])
LAW = "damped and dry"


@pytest.fixture(scope="module")
def starts() -> torch.Tensor:
    rng = np.random.default_rng(0)
    place = np.c_[np.zeros((5, 2)), rng.uniform(0.22, 0.3, 5)]
    velocity = np.c_[rng.uniform(0.3, 0.8, 5), rng.uniform(-0.2, 0.2, 5), np.full(5, -0.3)]
    return torch.tensor(
        np.c_[place, rng.normal(0, 1, (5, 3)), velocity, rng.normal(0, 3, (5, 3)), rng.normal(0, 1, (5, 2))]
    )


@pytest.fixture(scope="module")
def tosses(starts) -> list[hinge.HingeToss]:
    """Made by the law, without friction in the hinge, so that flights are those of the starts' model."""
    values = {
        "ground.friction": torch.full((5,), 0.2).double(),
        "joints.hinge.friction": torch.full((5,), 1e-4).double(),
    }
    x, q, angle = hinge.rollout(values, starts, FRAMES)
    unwrapped = torch.tensor(np.unwrap(angle.numpy(), axis=1))
    return [hinge.HingeToss(str(k), x[k], q[k], unwrapped[k]) for k in range(5)]


def test_centers_of_links_are_those_of_the_model(starts, tosses):
    one = hinge.model(FRAMES)
    parts = starts.split([3, 3, 3, 3, 1, 1], 1)
    values = dict(zip(hinge.KEYS, parts, strict=False)) | {
        "joints.hinge.angle": starts[:, 12],
        "joints.hinge.rate": starts[:, 13],
    }
    first = one.rollout(values, frames=2)["two"]["x"][:, 0].detach()
    predicted = torch.stack([toss.centers[0, 3:] for toss in tosses])
    torch.testing.assert_close(predicted, first, rtol=0, atol=1e-8)


def test_start_of_a_flight_is_recovered_from_its_first_frames(starts, tosses):
    recovered = hinge.start_of(tosses)
    angles = rotation.logarithm(
        rotation.multiply(
            rotation.exponential(recovered[:, 3:6]), rotation.conjugate(rotation.exponential(starts[:, 3:6]))
        )
    )
    assert angles.norm(dim=1).max() < 1e-5
    off = (recovered - starts)[:, [0, 1, 2, 6, 7, 8, 9, 10, 11, 12, 13]].abs()
    assert off.max() < 1e-4  # differences by 1e-5, and friction of the least size in the hinge


def test_numbers_of_a_law_without_friction_are_zero():
    for law, count in hinge.LAWS.items():
        columns = hinge.numbers(TRUTH, law)
        assert [name for name, y in columns.items() if y[0] != 0] == list(hinge.RANGES)[:count]
        assert all((y == 0).all() for name, y in columns.items() if name in list(hinge.RANGES)[count:])
    assert hinge.numbers(np.zeros((1, 9)), LAW)["ground.friction"][0] == pytest.approx(0.05)


def test_errors_of_a_prediction_that_is_right_are_zero_and_of_trivial_ones_exact(tosses):
    toss = tosses[0]
    right = hinge._prediction(toss, toss.centers.expand(5, -1, -1), toss.q.expand(5, -1, -1), 1.0)
    assert right["position_mm"] == 0 and right["rotation_deg"] < 1e-5 and right["coverage"] == 1
    still = (
        (toss.centers - toss.centers[hinge.SEEN - 1])
        .unflatten(1, (2, 3))
        .norm(dim=-1)
        .mean(-1)[hinge.SEEN :]
        .mean()
        .item()
    )
    assert right["still_position_mm"] == pytest.approx(1e3 * still)
    assert right["steady_position_mm"] > 20 * right["position_mm"]
    shifted = hinge._prediction(toss, toss.centers.expand(5, -1, -1) + 0.003, toss.q.expand(5, -1, -1), 1.0)
    assert shifted["position_mm"] == pytest.approx(3 * 3**0.5)
    assert shifted["position_quarters_mm"] == pytest.approx([3 * 3**0.5] * 4)


def test_search_leads_to_numbers_that_predict_a_toss_that_was_not_fitted(tosses, monkeypatch):
    monkeypatch.setattr(hinge, "POPULATION", 64)
    members, loss = hinge.fit(tosses[:4], "free", 8, np.random.default_rng(1))
    x, _ = hinge.predict(members[:1], "free", hinge.start_of(tosses[4:]), FRAMES)
    still = (
        (tosses[4].centers - tosses[4].centers[hinge.SEEN - 1]).unflatten(1, (2, 3)).norm(dim=-1).mean(-1).mean().item()
    )
    assert loss < 0.02
    assert hinge.distance(x[0, 0], tosses[4].centers)[hinge.SEEN :].mean() < 0.25 * still


def test_tosses_that_cannot_be_read_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"tosses.npz does not exist; set GRADSIM_REAL_DATA"):
        hinge.load()
    (tmp_path / "elbow_tosses").mkdir()
    np.savez(tmp_path / "elbow_tosses" / "tosses.npz", toss_1=np.zeros((30, 14)))
    with pytest.raises(InputError, match=r"`toss_1` of .* has shape \(30, 14\); expected \(frames, 15\)"):
        hinge.load()
