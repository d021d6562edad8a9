"""Films of made-up motions."""

import torch

from gradsim.identification import synthetic
from gradsim.physics import Model
from gradsim.scene import Scene


def test_a_visible_ground_hides_no_body_that_lies_on_it():
    """The middle of the floor is nearer to the camera than the ball."""
    ball = {"shape": {"sphere": {"radius": 0.3}}, "mass": 1, "position": [0, 1.0, 0.31], "colour": [0.8, 0.1, 0.1]}
    content = {
        "bodies": {"ball": ball},
        "ground": {"visible": {"size": 6, "colour": [0.5, 0.6, 0.7]}},
        "camera": {"size": [24, 18], "look_at": {"eye": [0, -4, 2], "target": [0, 1, 0.31], "fov": "30 deg"}},
        "background": [0.0, 0.0, 1.0],
    }
    scene = Scene.parse(content)
    with torch.no_grad():
        trajectory = Model(scene).rollout(frames=1)
    video = synthetic.render_video(scene, trajectory)
    torch.testing.assert_close(video[0, 9, 12], torch.tensor([0.8, 0.1, 0.1], dtype=torch.float64))
    torch.testing.assert_close(video[0, -1, 0], torch.tensor([0.5, 0.6, 0.7], dtype=torch.float64))
