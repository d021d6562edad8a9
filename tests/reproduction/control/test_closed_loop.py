"""Closed loops beside open ones: the same disturbances for all, and a goal that a picture alone tells."""

import pytest
import torch

from gradsim.render.camera import from_scene, project
from gradsim_reproduction.control.closed_loop import (
    CLOSE,
    KICK,
    closed_loop,
    disturbances,
    goal_position,
    misses,
    walker,
)


def test_the_image_tells_where_the_goal_is():
    """To half a pixel: the silhouette's middle is that of an area, seen from the front, so that of the mass."""
    for way in (3.375, -1.1):
        walk = walker(way)
        camera = from_scene(walk.plant.model.scene.camera)
        places = torch.stack([walk.truth.centre.double(), goal_position(walk.image, camera)])
        true, seen = project(places, camera.K, camera.R, camera.t)[0]
        assert torch.equal(places[1], walk.place) and abs(walk.place[1]) < 1e-12
        assert torch.linalg.vector_norm(true - seen) < 0.5


def test_runs_are_disturbed_as_told_and_never_as_in_training():
    walk = walker()
    runs = disturbances(walk, 20, 1)(0)
    density = walk.plant.model.get_parameter("walker.density")
    share = runs["walker.density"] / density - 1
    assert share.abs().max() <= 0.2 + 1e-6 and share.std() > 0.08
    kicks = runs["walker.impulses"]
    sizes = torch.linalg.vector_norm(kicks, dim=2)
    assert not kicks[..., 1].any() and set(sizes.gt(0).sum(1).tolist()) <= {1, 2, 3}
    assert (sizes[sizes > 0] - KICK).abs().lt(1e-9).double().mean() > 0.9
    times = walk.plant.times[sizes.any(0)]
    assert times.min() >= 0.5 - 0.1 and times.max() <= 3.5  # the last second and a half is free of them
    assert not any(
        torch.equal(disturbances(walk, 20, 0)(k)["walker.density"], runs["walker.density"]) for k in range(60)
    )


def test_a_run_that_ends_within_a_twentieth_of_the_way_has_reached_the_goal():
    walk = walker(2.0)
    ends = walk.truth.centre + torch.tensor([[0.09, 0.0, 0.03], [0.0, 0.0, -0.11]])
    assert (misses(ends[:, None], walk) < CLOSE).tolist() == [True, False]


@pytest.mark.slow
@pytest.mark.timeout(1200)  # some 100 CPU seconds
def test_feedback_reaches_the_goal_more_often_than_the_open_loop(tmp_path):
    """A few iterations already: twice as near on average."""
    found = closed_loop(tmp_path, quick=True)
    value = {name: figure["value"] for name, figure in found["figures"].items()}
    assert value["closed_loop_miss"] < 0.5 * value["open_loop_miss"]
    assert value["closed_loop_success_10"] > value["open_loop_success_10"]
    assert all((tmp_path / each["file"]).stat().st_size > 1000 for each in found["images"])
    assert closed_loop(tmp_path, quick=True)["figures"] == found["figures"]  # from what is kept
