"""Films of `reproduce capture`: motions and images against closed forms, and the rows."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from gradsim_reproduction.calibration import film_images
from gradsim_reproduction.calibration.board_images import CameraTruth
from gradsim_reproduction.calibration.film_scenes import KINDS, SIZE, G, film, film_camera
from gradsim_reproduction.calibration.films import film_figures, film_rows

SQUARE = CameraTruth((64, 48), np.array([[60.0, 0, 31.5], [0, 60.0, 23.5], [0, 0, 1]]), np.zeros(5))
FACING = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # looks along y


def camera(**shutter):
    return film_images.FilmCamera(
        SQUARE, FACING, np.array([0.0, 0, 2.0]), **{"exposure": 1e-9, "readout": 0.0, **shutter}
    )


def moving(speed):
    return lambda t: (np.outer(t, [speed, 0, 0]), np.broadcast_to(np.eye(3), (len(t), 3, 3)))


def covered(lens, speed):
    return film_images._average(lens, moving(speed), 0.5, 0.0, film_images._front_faces)[0].sum(0)


def test_coverage_of_a_face_is_its_projected_area():
    """A face of 0.5 m whose front is 1.75 m away: 60 · 0.5/1.75 px."""
    side = 60 * 0.5 / 1.75
    image = covered(camera(), 0.0)
    assert image.sum() == pytest.approx(side**2, rel=0.02)  # lines are a quarter of a pixel apart
    assert (image * (np.arange(64) + 0.5)).sum() / image.sum() == pytest.approx(32, abs=1e-6)


def test_an_exposure_blurs_over_what_the_body_passes_and_a_readout_shears():
    """At 3 m/s the front passes 60 · 3/1.75 px a second; instants are the middles of as many parts of the exposure."""
    still, blurred = (covered(camera(exposure=e), 3.0) for e in (1e-9, 0.05))
    middle = lambda image: (image * (np.arange(64) + 0.5)).sum(1)[image.sum(1) > 1] / image.sum(1)[image.sum(1) > 1]
    assert blurred.sum() == pytest.approx(still.sum(), rel=0.02)
    edges = np.flatnonzero(blurred[24] > 1e-3)
    passed = 0.05 * 60 * 3 / 1.75 * (1 - 1 / film_images.SHARES)
    assert edges[-1] - edges[0] + 1 == pytest.approx(60 * 0.5 / 1.75 + passed, abs=1.5)
    slopes = np.diff(middle(covered(camera(readout=0.04), 3.0)))
    assert slopes[3:-3] == pytest.approx(0.04 / 48 * 60 * 3 / 1.75, abs=0.005)  # rows that the face covers whole


@pytest.mark.parametrize("kind", KINDS)
def test_motions_are_those_of_an_integrator(kind):
    one = film(kind, 1, 5)
    t = np.array([0.1, 0.3, 0.5])
    x, R = one.pose(t)
    v = np.array([one.truth.get(f"cube.velocity.{axis}", 0.0) for axis in "xyz"])
    if kind == "push":
        v = np.array(one.content["bodies"]["cube"]["pushes"][0]["impulse"]) / one.truth["cube.mass"]
    g, friction = one.truth.get("gravity.z", -G), one.truth.get("ground.friction")

    def rate(_, y):
        speed = np.linalg.norm(y[3:])
        brake = -friction * G * y[3:] / max(speed, 1e-9) * (speed > 1e-4) if kind == "slide" else np.array([0, 0, g])
        return np.concatenate([y[3:], brake])

    start = np.concatenate([one.pose(np.zeros(1))[0][0], v])
    path = solve_ivp(rate, (0, 0.5), start, t_eval=t, rtol=1e-9, atol=1e-10, max_step=1e-3).y[:3].T
    assert np.abs(x - path).max() < 1e-5
    spin = np.array([one.truth.get(f"cube.angular_velocity.{axis}", 0.0) for axis in "xyz"])
    first = Rotation.from_rotvec([one.truth.get(f"cube.rotation_vector.{axis}", 0.0) for axis in "xyz"])
    assert np.abs(R[1] - (Rotation.from_rotvec(0.3 * spin) * first).as_matrix()).max() < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_films_are_in_view_and_their_scenes_do_not_state_the_truth(kind):
    for number in range(4):
        one, view = film(kind, number, 0), film_camera(kind, number, 0)
        pixels = view.project(one.pose(one.stamps)[0])
        assert (pixels > 0).all() and (pixels < SIZE).all()
        assert np.diff(one.stamps).min() > 0.02
        cube = one.content["bodies"]["cube"]
        assert cube["position"][0] != one.truth["cube.position.x"]


def record(z, status="ok", naive=None):
    unknown = {"z": z, "inside": abs(z) < 1.96, "relative": 0.01 * z}
    entry = {"status": status, "unknowns": {"a": unknown}, "silent": status == "ok" and abs(z) > 5, "cpu_seconds": 1.0}
    return {"kind": "throw", **entry, "naive": naive}


def test_rows_count_intervals_of_fits_that_are_ok():
    records = [record(0.5, naive=record(9.0, "mismatch")), record(-3.0), record(7.0, "mismatch"), record(-6.0)]
    rows = film_rows(records)
    row = rows["coverage"]
    assert row["coverage"] == pytest.approx(1 / 3) and row["silent_failures"] == 1 and row["ok_share"] == 0.75
    assert row["coverage_whatever_the_status"] == 0.25
    assert rows["naive"]["z_rms_whatever_the_status"] == 9 and rows["naive"]["statuses"] == {"mismatch": 1}
    figures = film_figures(rows)
    assert not figures["silent_failures"]["ok"] and figures["naive_ok"]["value"] == 0
