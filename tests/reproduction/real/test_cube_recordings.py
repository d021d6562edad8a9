import math

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, near

from gradsim.errors import InputError
from gradsim.numerics import rotation
from gradsim_reproduction.real.cube_recordings import FPS, SIDE, Noise, Toss, angle, clips, load, noise, recordings

SIGMA = Noise(flight=1e-4, spin=1e-3, height=1e-3, tilt=1e-2)


def toss(frames=60, seed=0, jitter=0.0, tilt=0.0, sunk=0.0, rest=0):
    """A cube that flies for 20 frames and then lies on a face, tilted and sunk a little."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(*shape, generator=generator).double()
    times = torch.arange(frames + rest).double()[:, None] / FPS
    drop = torch.tensor([0.0, 0.0, -4.9]).double()
    x = torch.tensor([0.0, 0.0, 0.4]).double() + times * torch.tensor([1.0, 0.2, 0.5]).double() + drop * times**2
    q = rotation.multiply(rotation.exponential(times * normal(3)), rotation.exponential(normal(3)))
    x[20:, 2] = SIDE / 2 - sunk
    q[20:] = rotation.exponential(torch.tensor([tilt, 0.0, 0.4]).double() * torch.tensor([1.0, 1.0, 0.0]))
    x[frames:] = x[frames - 1]
    q = rotation.multiply(rotation.exponential(10 * jitter * normal(frames + rest, 3)), q)
    return Toss("made up", x + jitter * normal(frames + rest, 3), q)


def test_flight_ends_where_the_lowest_corner_comes_to_the_table():
    assert toss().flight == 20
    assert toss().corners[-1].tolist() == near([0.0] * 4 + [SIDE] * 4, ROUNDING, scale=1.0)


def test_noise_in_flight_is_what_was_added():
    found = noise([toss(seed=k, jitter=2e-4) for k in range(30)])
    assert found.flight == pytest.approx(2e-4, rel=0.1)  # 30 tosses × 16 frames × 3 axes: 2.6 %, less what is fitted
    assert found.spin == pytest.approx(2e-3, rel=0.1)


def test_noise_in_contact_is_how_a_cube_at_rest_misses_the_table():
    assert noise([toss(sunk=1.5e-3)]).height == pytest.approx(1.5e-3)
    tilted = noise([toss(tilt=0.01)])
    assert tilted.tilt == pytest.approx(0.01 / math.sqrt(2), rel=1e-6)  # about one of two axes
    assert noise([toss()]).height == near(0, ROUNDING, scale=1.0)


def test_what_follows_rest_is_cut_off():
    still = toss(rest=100)
    moved = Toss("a hand came", torch.cat([still.x, still.x + 0.3]), torch.cat([still.q, still.q]))
    assert len(moved.until_rest()) < 60 + 30
    assert len(toss().until_rest()) == 60


def test_clips_share_their_end_frames_and_are_noisier_from_the_first_touch_on():
    cut = clips([toss()], SIGMA, 16)
    assert [c.first for c in cut] == [0, 15, 30]
    assert torch.equal(cut[0].x[-1], cut[1].x[0])
    assert (cut[0].sigma_x == SIGMA.flight).all() and (cut[0].sigma_angle == SIGMA.spin).all()
    assert (cut[1].sigma_x[:5] == SIGMA.flight).all() and (cut[1].sigma_x[5:] == SIGMA.height).all()
    assert torch.allclose(cut[2].sigma_angle, torch.tensor(SIGMA.tilt).double())


def test_angle_is_that_of_the_turn_between():
    q = rotation.exponential(torch.tensor([0.2, -0.4, 0.1]).double())
    turned = rotation.multiply(rotation.exponential(torch.tensor([0.0, 0.0, 0.7]).double()), q)
    assert angle(turned, q).item() == pytest.approx(0.7)


def test_absent_recordings_are_an_error_that_says_where_to_put_them(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="GRADSIM_REAL_DATA"):
        recordings()
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match="holds 0 files toss_"):
        load()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["a", "b"]], "not a table of numbers"),
        ([[0.0, 1.0, 2.0]], "quat|qx qy qz qw"),
        ([[k / 30, 0, 0, 1, 0, 0, 0, 1] for k in range(40)], "not sampled at 148 Hz"),
        ([[k / FPS, 0, 0, np.nan, 0, 0, 0, 1] for k in range(40)], "qx qy qz qw"),
    ],
)
def test_file_that_holds_no_toss_is_named(monkeypatch, tmp_path, rows, message):
    folder = tmp_path / "cube_tosses"
    folder.mkdir()
    for k in range(9):
        lines = ["header", *(",".join(map(str, row)) for row in rows)]
        (folder / f"toss_{k:03}.csv").write_text("\n".join(lines))
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=message) as error:
        load()
    assert "toss_000.csv" in str(error.value)
