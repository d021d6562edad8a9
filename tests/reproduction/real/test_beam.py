"""A beam of known stiffness is measured from its swing, and the real one predicts its load."""

import json

import numpy as np
import pytest
import torch
from checks import error
from tolerances import ROUNDING, SOLVED, near

from gradsim.errors import InputError
from gradsim_reproduction.real import beam_recordings as recorded
from gradsim_reproduction.real.beam import real_beam
from gradsim_reproduction.real.beam_checks import beam_theory
from gradsim_reproduction.real.beam_fit import Tracks
from gradsim_reproduction.real.beam_model import FPS, GRAVITY, LENGTH, WIDTH, Beam
from gradsim_reproduction.real.beam_recordings import Recording, first_trusted_frames, swing
from gradsim_reproduction.real.cube_recordings import recordings

COARSE, LINEAR = Beam((1, 3), 0.45), Beam((1, 3), 0.45, linear=True)
SLOW = pytest.param(COARSE, marks=pytest.mark.slow, id="quadratic")  # 20 s to compile
swinging = pytest.mark.parametrize("beam", [pytest.param(LINEAR, id="linear"), SLOW])


@pytest.mark.parametrize("beam", [COARSE, Beam((1, 3), 0.3, linear=True)], ids=("quadratic", "linear"))
def test_forces_and_stiffness_are_slopes_of_the_energy(beam):
    x = beam.mesh[0] + 1e-3 * torch.randn(len(beam.mesh[0]), 3, generator=torch.Generator().manual_seed(1)).double()
    mu, lam = beam.lame(1.0)
    none = torch.zeros(()).double()
    at = x.requires_grad_()
    energy = beam.law.energy(at[beam.mesh[1]], **beam.rest, mu=mu, lam=lam, damping=none, activation=none).sum()
    (slope,) = torch.autograd.grad(energy, at, create_graph=True)
    along = torch.randn(x.shape, generator=torch.Generator().manual_seed(2)).double()
    (curve,) = torch.autograd.grad((slope * along).sum(), at)
    f, K = beam.stiffness(x.detach())
    assert error(f, -slope.detach()) < 1e-12
    assert error(torch.tensor(K @ along.flatten().numpy()), curve.flatten()) < 1e-12


def test_a_held_beam_is_level_and_a_free_one_sags():
    held, free = COARSE.at_rest(2e5, 0.0, 2e-3), COARSE.at_rest(2e5, 0.0)
    height = lambda x: (COARSE.markers @ (x - COARSE.mesh[0])).mean(0)[0].item()
    assert height(held) == near(2e-3, ROUNDING, scale=1.0)
    assert -height(free) == pytest.approx(COARSE.sag(2e5, 0.0))
    # small displacements of a nearly stiff beam are in proportion to weight over E
    assert COARSE.sag(2e8, 0.0) / COARSE.sag(4e8, 0.0) == pytest.approx(2, rel=1e-3)


def test_markers_move_with_the_tip_as_a_rigid_body_does():
    turn = torch.linalg.matrix_exp(torch.tensor([[0, 0, 0.2], [0, 0, 0], [-0.2, 0, 0]]).double())
    moved = COARSE.mesh[0] @ turn.T + 0.01
    places = torch.tensor([[0.021, 0.0, LENGTH], [0.009, 0.021, LENGTH], [-0.009, -0.021, LENGTH]]).double()
    assert error(COARSE.markers @ moved, places @ turn.T + 0.01) < 1e-6  # of numbers of float32


def test_quadratic_beam_has_the_sag_and_pitch_of_theory():
    """ρ g A L⁴/(8 E I) with Timoshenko's shear, and f = 1.8751²/(2π L²) √(E I/(ρ A)) less what shear takes."""
    beam, E, rho = Beam((2, 7), 0.3), 2e7, 1070.0
    bending = 12 * rho * GRAVITY * LENGTH**4 / (8 * E * WIDTH**2)
    shear = 2.6 * (12 + 11 * 0.3) / (10 * 1.3) * rho * GRAVITY * LENGTH**2 / (2 * E)
    assert beam.sag(E, 0.0) == pytest.approx(bending + shear, rel=0.06)
    euler = 1.8751**2 / (2 * np.pi * LENGTH**2) * np.sqrt(E * WIDTH**2 / 12 / rho)
    assert beam.frequency(E, 0.0) == pytest.approx(euler * np.sqrt(bending / (bending + shear)), rel=0.03)


def test_largest_step_is_stable_and_near_the_edge():
    """Bounds of single elements hold for the mesh, and are less than 2.5 times too careful."""
    E, damping = 2e5, 100.0
    h = COARSE.largest_step(E, damping)
    mass = COARSE.masses(0.0).repeat_interleave(3)
    K = torch.tensor(COARSE.stiffness(COARSE.mesh[0])[1].toarray()) * E
    exact = torch.linalg.eigvalsh(K / (mass.sqrt() * mass.sqrt()[:, None])).max().item()
    assert exact <= E * COARSE._rates[0] <= 2.5 * exact
    c, square = damping * COARSE._rates[1], E * COARSE._rates[0]
    assert h * c + h * h * square / 2 == near(2, SOLVED)


def test_damped_oscillation_and_creep_are_read_from_heights():
    t = np.arange(400) / 100
    wave = -5 - 5 * np.exp(-2.5 * t) * np.cos(2 * np.pi * 7.7 * t + np.pi) + 0.5 * np.exp(-1.8 * t)
    noise = 0.02 * np.random.default_rng(0).standard_normal(len(t))
    found = swing(1e-3 * (wave + noise), 100.0)
    assert found.frequency == pytest.approx(7.7, rel=1e-3)
    assert found.decay == pytest.approx(2.5, rel=0.02)
    assert found.creep == pytest.approx(5e-4 * np.exp(-1.8 * 0.065), rel=0.05)


def test_a_marker_that_steps_alone_is_not_believed_before():
    markers = np.tile(np.random.default_rng(1).normal(size=(6, 3)), (50, 1, 1))
    markers[:20, 4] += [5e-4, 0, 0]
    assert first_trusted_frames(markers).tolist() == [0, 20, 0]


def test_motion_of_the_clamp_is_taken_out(tmp_path, monkeypatch):
    """A clamp that turns by 1° and moves, with a tip that sags in its frame."""
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    (tmp_path / "silicone_beam").mkdir()
    rest = np.array([[74, 31, 75], [62, 51, 75], [45, 9, 71], [49, 59, -21], [76, 8, -18], [49, 9, -22]]) * 1e-3
    down = np.clip((np.arange(300) - 60) / 100, 0, 1)
    track = np.tile(rest, (300, 1, 1))
    track[:, :3, 0] -= 0.006 * down[:, None]
    angle = np.radians(1.0) * down
    turn = np.zeros((300, 3, 3))
    turn[:, 0, 0] = turn[:, 2, 2] = np.cos(angle)
    turn[:, 0, 2], turn[:, 2, 0], turn[:, 1, 1] = -np.sin(angle), np.sin(angle), 1
    track = np.einsum("fij,fkj->fki", turn, track) + 0.001 * down[:, None, None]
    rows = np.concatenate([np.arange(300)[:, None] / 100, track.reshape(300, 18)], 1)
    np.savetxt(tmp_path / "silicone_beam" / "gravity_a.csv", rows, delimiter=",", header="time")
    seen = recorded.load("gravity_a")
    assert seen.sag == pytest.approx(0.006, rel=1e-3)  # the turn is linearised, and its axis is not the frame's
    assert np.degrees(seen.turn) == pytest.approx(1.0, rel=1e-3)


@pytest.mark.slow
@swinging
def test_made_up_stiffness_and_damping_are_recovered(beam):
    """From a start that is 60 % off in E and four times off in damping, on a swing of 0.7 s with noise."""
    young, damping, early, height = 2.3e5, 150.0, -0.004, -1e-3
    truth = np.array([np.log(young), np.log(damping), early, height])
    level = np.zeros((3, 3))
    blank = Recording("gravity_a", np.zeros((140, 6, 3)), level, np.zeros((140, 3, 3)), 20, 0.0)
    curve = Tracks(beam, blank, 0.7).simulate(truth[None], 1.3)
    times = (np.arange(140) - 20) / 100
    tip = np.where(times[:, None, None] < 0, 0, curve(np.maximum(times - early, 0))[:, 0])
    tip += 2e-5 * np.random.default_rng(3).standard_normal(tip.shape)
    tracks = Tracks(beam, Recording("gravity_a", np.zeros((140, 6, 3)), level, tip, 20, 0.0), 0.5)
    found = tracks.fit(np.array([np.log(3.7e5), np.log(600.0), 0, 0]))
    assert found.young == pytest.approx(young, rel=0.005)
    assert found.damping == pytest.approx(damping, rel=0.05)
    assert np.sqrt(found.cost) == pytest.approx(2e-5, rel=0.1)


def test_beam_theory_adds_a_load_by_the_textbook():
    """δ = w L⁴/(8 E I) + F L³/(3 E I); a heavy load has f = √(3 E I/(m L³))/2π, to the share of the beam's own mass."""
    sag, frequency = beam_theory(1.0, 1.0)
    share = 0.052 / (1070 * 0.03**2 * 0.1)
    assert sag == pytest.approx(1 + 8 / 3 * share)
    assert frequency == pytest.approx(np.sqrt(3 / (share + 33 / 140)) / 1.8751**2, rel=0.01)  # Rayleigh


@pytest.mark.slow
def test_real_beam_predicts_its_load(tmp_path):
    try:
        recordings()
    except InputError as problem:
        pytest.skip(str(problem))
    result = real_beam(tmp_path, quick=True)
    figures = {name: figure["value"] for name, figure in result["figures"].items()}
    assert figures["sag_error"] <= 0.1
    assert figures["frequency_error"] <= 0.05
    assert 1.5e5 < figures["young_pa"] < 4e5
    assert result["measured"]["gravity_a"]["sag_from_the_first_frame_m"] == pytest.approx(7.05e-3, rel=0.01)
    assert result["measured"]["load52_a"]["sag_from_the_first_frame_m"] == pytest.approx(14.6e-3, rel=0.01)
    assert json.loads((tmp_path / "result.json").read_text())["figures"] == result["figures"]
    assert {path.name for path in tmp_path.iterdir()} >= {p["file"] for p in result["images"]}


def test_missing_recordings_are_an_input_error(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADSIM_REAL_DATA", str(tmp_path))
    with pytest.raises(InputError, match="GRADSIM_REAL_DATA"):
        real_beam(tmp_path / "out", quick=True)
    assert not (tmp_path / "out").exists()


@swinging
def test_swings_start_where_they_are_held_and_fall(beam):
    start = beam.at_rest(2e5, 0.0, 0.0)
    track = beam.swings([2e5], [100.0], [0.0], start[None], 0.05)
    height = (track - beam.markers @ start)[0, :, :, 0].mean(1)
    assert len(height) == round(0.05 * FPS) + 1
    assert height[0] == pytest.approx(0, abs=1e-15)  # rounding of 0.1 m
    assert height[-1] < -2e-3
