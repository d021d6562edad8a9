"""Collisions: bounces, the known shot, identification, and the quick form."""

import math

import pytest
import torch
from tolerances import ROUNDING, assert_near

from gradsim_reproduction.contact import billiards, collisions
from gradsim_reproduction.contact.billiards import RADIUS, TIME, hard_ball_velocity


def test_the_known_shot_brings_the_struck_ball_to_its_goal():
    """Hard balls, step by step: the first touches, the other leaves along the line of centres."""
    place, goal = torch.tensor([0.8, 0.05]).double(), torch.tensor([1.4, -0.2]).double()
    v = hard_ball_velocity(place, goal)
    speed, e = v.norm(), v / v.norm()
    along = e @ place
    until = (along - torch.sqrt(along**2 - place @ place + 4 * RADIUS**2)) / speed
    n = (place - v * until) / (2 * RADIUS)
    assert_near(place + (v @ n) * n * (TIME - until), goal, ROUNDING, scale=1.0)


def test_a_bounce_misses_by_the_time_in_touch(monkeypatch):
    """∂h/∂v₀ = −(T − π √(m/k)) of a ball off a ground, to what the step leaves."""
    monkeypatch.setattr(collisions, "SHORT", 20_000)
    assert collisions.ground_bounce(1e3) == pytest.approx(math.pi / math.sqrt(1e3), rel=1e-2)


def test_starts_of_shots_do_not_know_the_goal():
    shots = [billiards.Shot.random(0, number) for number in range(2)]
    turned = [torch.atan2(s.starts[:, 1], s.starts[:, 0]) - math.atan2(*reversed(s.place.tolist())) for s in shots]
    assert all((t.abs() <= billiards.ANGLE).all() for t in turned)
    assert not torch.equal(*(s.starts for s in shots))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_finds_masses_friction_and_shots(tmp_path):
    result = collisions.collisions(tmp_path, quick=True)
    assert all(figure["ok"] for figure in result["figures"].values()), result["figures"]
    assert (tmp_path / "shots.png").exists() and (tmp_path / "player.html").exists()
