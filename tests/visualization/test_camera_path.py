"""Going round the scene is the same as turning the scene before the camera."""

import math

import torch

from gradsim.render.camera import look_at
from gradsim.visualization.camera_path import turntable


def test_a_camera_that_goes_round_sees_what_one_sees_of_a_world_that_turns_back():
    torch.manual_seed(0)
    points, middle = torch.randn(7, 3, dtype=torch.float64), torch.tensor([0.3, -0.2, 0.5], dtype=torch.float64)
    camera = look_at((1.0, -6.0, 2.5), (0.2, 0.0, 0.4), (0.1, 0.0, 1.0), 0.8, 32, 24)
    views = turntable(camera, middle, 5)
    for k, view in enumerate(views):
        c, s = math.cos(-2 * math.pi * k / 5), math.sin(-2 * math.pi * k / 5)
        turn = torch.tensor([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=torch.float64)
        pixels, depth = view.project(points)
        expected, far = camera.project((points - middle) @ turn.T + middle)
        assert (pixels - expected).abs().max() < 1e-10 and (depth - far).abs().max() < 1e-12
    heights = torch.stack([view.centre[2] for view in views])
    assert (heights - 2.5).abs().max() < 1e-12
    first, second = (view.centre - middle for view in views[:2])
    assert first[0] * second[1] - first[1] * second[0] > 0  # counter-clockwise from above
