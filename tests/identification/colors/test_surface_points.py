"""Faces of rigid bodies that pixels show."""

import torch

from gradsim.identification.colors.surface_points import PixelList, body_named, pose_of, visible_faces
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene


def test_a_pixel_behind_a_lens_shows_the_face_that_the_camera_projects_there():
    scene = Scene.parse(
        {
            "bodies": {
                "cube": {
                    "shape": {"box": {"size": [1.0, 1.0, 1.0]}},
                    "mass": 1.0,
                    "position": [0.6, 0.0, 0.4],
                    "rotation_vector": [0.3, 0.2, 0.5],
                }
            },
            "camera": {
                "size": [640, 480],
                "look_at": {"eye": [0.0, -4.0, 1.0], "target": [0.0, 0.0, 0.0], "fov": "50 deg"},
                "distortion": [-0.4, 0.1, 0.0, 0.0, 0.0],
            },
            "timing": {"fps": 30, "frames": 2},
        }
    )
    silhouettes = Silhouettes.of(scene, "camera")
    with torch.no_grad():
        trajectory = Model(scene).rollout(frames=2)
    body, pose = body_named(trajectory, "cube"), pose_of(trajectory, "cube", silhouettes)
    corners = (pose.x[0] + rotation.rotate(pose.q[:1], body.rest * pose.scale))[body.part.faces]
    centers = corners.mean(1)
    outward = torch.linalg.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    eye = -pose.t @ pose.R
    (front,) = torch.nonzero((outward * (eye - centers)).sum(-1) > 0.3, as_tuple=True)
    near = torch.full((3, 3), 0.05).double() + 0.85 * torch.eye(3).double()  # a point near each corner, 4 px inside
    expected = front.repeat_interleave(3)
    place = silhouettes.camera.project((near @ corners[front]).flatten(0, 1))[0]
    pixels = PixelList(torch.zeros(len(expected), dtype=torch.long), place)
    values = {name: v[:1] for name, v in trajectory.values.items()}
    faces = visible_faces(body, pose, values, pixels, silhouettes)
    assert len(front) >= 4 and faces is not None
    assert faces.tolist() == expected.tolist()
