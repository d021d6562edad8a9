"""Videos and images of a controller: the trajectory with the outline of the goal, next to the goal.

For wide images the goal is below.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate, max_pool2d

from gradsim import video as videos
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import from_scene
from gradsim.render.shading.shading import Shading
from gradsim.visualization.frames import FrameRenderer, default_renderer
from gradsim.visualization.overlay_video import EDGE, HEIGHT
from gradsim.visualization.sheets import evenly, strip

INSTANTS = 6  # of a trajectory in one image
WIDTH = 480  # [px] small images are enlarged to about this, or to the height of other videos
WIDE_ASPECT = 1.5  # width over height from which on the goal is below
GAP = 8  # [px] between motion and goal
MAX_LOSSLESS_BYTES = 3 * 2**20  # [bytes] larger videos are written as previews: a page holds four


@dataclass(frozen=True)
class Sought:
    """A goal of a controller, as videos show it.

    Args:
        frame: Frame of the trajectory that is compared with it.
        image: (height, width, 3) in [0, 1], of the camera's size.
        inside: Coverage by the bodies (height, width), for the outline.
    """

    frame: int
    image: np.ndarray
    inside: np.ndarray


class Screen:
    """Draws trajectories as seen by one camera of a scene, enlarged.

    Args:
        scene: The scene.
        camera: Name of the camera.
        goals: Goals, at least one.
        most: Largest number of frames in a video; longer trajectories are thinned, keeping the last frame. None: all.
    """

    def __init__(self, scene, camera: str, goals: list[Sought], most: int | None = None):
        self.every = max(1, math.ceil(scene.timing.frames / most)) if most else 1
        self.scene, self.fps = scene, scene.timing.fps / self.every
        original = from_scene(scene.view(camera))
        self.times = max(1, min(round(HEIGHT / original.height), round(WIDTH / original.width)))
        self.camera = original.resized(self.times * original.width, self.times * original.height)
        self.goals = sorted(goals, key=lambda goal: goal.frame)
        self.edges = [self._edge(goal) for goal in self.goals]

    @property
    def is_wide(self) -> bool:
        """True if two images do not fit side by side."""
        return self.camera.width > WIDE_ASPECT * self.camera.height

    def video(self, trajectory: Trajectory) -> np.ndarray:
        """Trajectory of the first world, and the goal (frames, height, width, 3) uint8."""
        numbers, images = self._frame_numbers(trajectory), self.frames(trajectory)
        axis = 0 if self.is_wide else 1
        gap = np.full_like(images[0], 255).take(range(GAP), axis)
        frames = []
        for k, image in zip(numbers, images, strict=True):
            due = self._due(k)
            goal = self.enlarged(self.goals[due])
            frames.append(np.concatenate([self._outlined(image, due), gap, goal], axis))
        return np.stack(frames)

    def frames(self, trajectory: Trajectory) -> np.ndarray:
        """Trajectory of the first world alone (frames, height, width, 3) uint8."""
        return np.stack(
            [
                to_bytes(image)
                for image in self._renderer(trajectory).draw(_first(trajectory, self._frame_numbers(trajectory)))
            ]
        )

    def instants(self, trajectory: Trajectory) -> np.ndarray:
        """Several instants of the first world in one image (height, width, 3) uint8, the last one clearest."""
        chosen = evenly(len(trajectory.times), min(INSTANTS, len(trajectory.times)))
        surface, renderer, bodies = _first(trajectory, chosen), self._renderer(trajectory), list(self.scene.bodies)
        images = [image.numpy() for image in renderer.draw(surface)]
        shares = [share.numpy() for share in renderer.share(surface, bodies)]
        whole = strip(images, shares, renderer.without(surface, bodies).numpy())
        return self._outlined(to_bytes(whole), -1)

    def enlarged(self, goal: Sought) -> np.ndarray:
        """Image of the goal in the size of the video (height, width, 3) uint8."""
        return to_bytes(goal.image).repeat(self.times, 0).repeat(self.times, 1)

    def _frame_numbers(self, trajectory: Trajectory) -> list[int]:
        count = len(trajectory.times)
        return list(range((count - 1) % self.every, count, self.every))

    def _renderer(self, trajectory: Trajectory) -> FrameRenderer:
        looks = [part.appearance for part in trajectory.scene_surface.parts]
        return FrameRenderer(
            default_renderer(self.scene, looks), self.camera, Shading.of(self.scene, None), self.scene.background
        )

    def _due(self, frame: int) -> int:
        """Index of the next goal, or of the last one."""
        return next((k for k, goal in enumerate(self.goals) if goal.frame >= frame), -1)

    def _outlined(self, image: np.ndarray, goal: int) -> np.ndarray:
        """The image with the outline of a goal."""
        return np.where(self.edges[goal][..., None], EDGE, image)

    def _edge(self, goal: Sought) -> np.ndarray:
        """Pixels of the enlarged image (height, width) just outside the goal."""
        small = torch.tensor(np.asarray(goal.inside, np.float64))[None, None]
        size = self.camera.height, self.camera.width
        inside = interpolate(small, size, mode="bilinear", align_corners=False) > 0.5
        grown = max_pool2d(inside.double(), 5, 1, 2) > 0.5
        return (grown & ~inside)[0, 0].numpy()


def write_video(path: Path, frames: np.ndarray, fps: float) -> bool:
    """Write a video losslessly, or as a preview if the file is large.

    Returns:
        True if lossless.
    """
    videos.write(path, frames, fps)
    if path.stat().st_size < MAX_LOSSLESS_BYTES:
        return True
    videos.write_preview(path, frames, fps)
    return False


def _first(trajectory: Trajectory, frames: list[int]) -> Surface:
    surface = trajectory.scene_surface
    return Surface(surface.vertices[:1, frames].detach(), surface.parts)
