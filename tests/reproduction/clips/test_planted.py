import numpy as np
import pytest

from gradsim_reproduction.clips import planted
from gradsim_reproduction.clips.videos import coverage_of


def record(fault, *causes, status="mismatch"):
    return {"fault": fault, "status": status, "causes": [{"name": name} for name in causes]}


def test_a_fault_counts_where_it_is_the_first_cause_of_a_mismatch():
    records = [record("blur", "late exposure", "late stamps"), record("lens", "camera.focal", "lens distortion")]
    records += [record("size", "ball.scale", status="ok"), record("mask"), record("distance", "camera.focal")]
    figures = planted.planted_figures(records)
    assert figures["cause_named"]["value"] == 2 and not figures["cause_named"]["ok"]
    assert figures["cause_named (blur)"]["value"] == 1 and figures["cause_named (lens)"]["value"] == 0
    every = planted.planted_figures([record(fault, names[0]) for fault, names in planted.NAMES.items()])
    assert every["cause_named"]["ok"] and every["cause_named"]["value"] == 8


@pytest.fixture(scope="module")
def flight():
    return planted.flight(0)


def centres(alpha: np.ndarray) -> np.ndarray:
    """Column and row (frames, 2) of the middle of a mask."""
    y, x = np.mgrid[: alpha.shape[1], : alpha.shape[2]] + 0.5
    weight = alpha.sum((1, 2))
    return np.stack([(alpha * x).sum((1, 2)) / weight, (alpha * y).sum((1, 2)) / weight], 1)


@pytest.mark.slow
def test_faults_of_the_camera_are_what_they_say(flight, monkeypatch):
    """Half an exposure late; later by the share of the image that is above the row; nearer to the middle the farther away."""
    monkeypatch.setattr(planted, "BANDS", 8)
    whole, size = slice(4, -4), np.array(flight.scene.camera.size)
    exact = centres(coverage_of(flight, flight.truth))[whole]
    at = lambda delay: centres(coverage_of(planted.Retimed(**vars(flight), delay=delay), flight.truth))[whole]
    blurred = centres(planted.covered(flight, "blur"))[whole]
    np.testing.assert_allclose(blurred, at(planted.EXPOSURE / 2), atol=0.05)
    rolled, share = centres(planted.covered(flight, "rolling shutter"))[whole], exact[:, 1:] / size[1]
    speed = (at(1e-3) - at(-1e-3)) / 2e-3
    # rows of one ball differ by a fifth of the readout, and bands are an eighth of it
    assert np.abs(rolled - exact - planted.READOUT * share * speed).max() < 0.15 * np.abs(rolled - exact).max() + 0.1
    bent = centres(planted.covered(flight, "lens"))[whole]
    inward = ((bent - exact) * (exact - size / 2)).sum(1)
    assert (inward < 0).all() and np.abs(
        bent - exact
    ).max() > 0.5  # px, where the ball is a third of the image's width from the middle


def test_a_scene_differs_in_the_planted_number_alone(flight):
    assert planted.scene_with(flight, "lens") == flight.scene
    rate, near, large = (planted.scene_with(flight, fault) for fault in ("rate", "distance", "size"))
    assert rate.timing.fps == pytest.approx(30 * 1.03)
    eye = lambda scene: np.subtract(scene.camera.look_at.eye, scene.camera.look_at.target)
    np.testing.assert_allclose(eye(near), planted.NEARER * eye(flight.scene))
    radius = lambda scene: scene.bodies["ball"].shape.sphere.radius
    assert radius(large) == pytest.approx(planted.LARGER * radius(flight.scene))
