import numpy as np
import pytest

from gradsim.scene.restitution import of_damping
from gradsim_reproduction.clips import headline, motion


def record(name, status="ok", value=9.8, inside=True, seconds=10.0, causes=()):
    unknowns = {headline.JUDGED.get(name, "gravity.z"): {"value": value, "truth": 9.8, "inside": inside}}
    causes = [{"name": cause} for cause in causes]
    return {"name": name, "status": status, "unknowns": unknowns, "seconds": seconds, "causes": causes}


@pytest.mark.parametrize("changed, missed", [
    ({}, None), ({"status": "mismatch"}, "ok"), ({"value": 10.1}, "error"), ({"inside": False}, "inside"),
    ({"seconds": 61.0}, "seconds"),
])  # fmt: skip
def test_a_clip_has_to_be_ok_right_and_quick(changed, missed):
    figures = headline.headline_figures([record(headline.BALL, **changed)])
    assert [key for key, one in figures.items() if not one["ok"]] == ([f"ball_clip_{missed}"] if missed else [])


def test_the_default_ground_has_to_be_a_mismatch_that_names_the_ground():
    """A number of the ball is no cause that counts."""
    right = headline.headline_figures([record(headline.BALL_BY_DEFAULT, "mismatch", causes=("ground.friction",))])
    wrong = headline.headline_figures([record(headline.BALL_BY_DEFAULT, causes=("ball.mass",))])
    assert all(one["ok"] for one in right.values()) and not any(one["ok"] for one in wrong.values())


@pytest.mark.parametrize("seed", range(3))
def test_the_ball_bounces_on_a_ground_of_its_height_and_does_not_come_to_rest(seed):
    one = headline.ball_clip(seed)
    vertices, _ = motion.surface(one, one.truth)
    lowest = vertices[:, :, 2].min(1)
    ground = one.scene.grounds["ground"]
    restitution = of_damping(one.truth["ground.damping"], ground.stiffness, 1.0, ground.law)
    rises = np.diff(lowest) > 0
    assert len(one.truth) == 5 and 0.8 < restitution < 0.95
    assert -1e-9 < lowest.min() - one.truth["ground.height"] < 0.1 and np.ptp(lowest[-20:]) > 0.05
    assert (np.diff(rises.astype(int)) == 1).sum() >= 2
