"""Films and pictures of a controller at work: the motion with the goal's outline over it, and the goal beside it.

Where the camera's picture is much wider than high, the goal is below.
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
from gradsim.visualization.frames import FrameRenderer, fitting
from gradsim.visualization.overlay_video import EDGE, HEIGHT
from gradsim.visualization.sheets import evenly, strip

INSTANTS = 6  # of a motion in one picture
WIDTH = 480  # [px] small pictures are enlarged to about this, or to the height of other films
WIDE = 1.5  # width over height from which on the goal is below
GAP = 8  # [px] between motion and goal
LARGE = 3 * 2**20  # bytes from which on a film is kept as a preview: a page holds four


@dataclass(frozen=True)
class Sought:
    """A goal as films show it.

    Args:
        frame: Frame of the motion that is to look like it.
        picture: (height, width, 3) in [0, 1], of the camera's size.
        inside: How much of a pixel bodies take in it (height, width), for the outline.
    """

    frame: int
    picture: np.ndarray
    inside: np.ndarray


class Screen:
    """Draws motions as one camera of a scene sees them, enlarged.

    Args:
        scene: The scene.
        camera: Name of the camera.
        goals: What it is to see, at least one.
        most: Pictures in a film, of longer motions some at equal distances, the last one among them; None: all.
    """

    def __init__(self, scene, camera: str, goals: list[Sought], most: int | None = None):
        self.every = max(1, math.ceil(scene.timing.frames / most)) if most else 1
        self.scene, self.fps = scene, scene.timing.fps / self.every
        own = from_scene(scene.view(camera))
        self.times = max(1, min(round(HEIGHT / own.height), round(WIDTH / own.width)))
        self.camera = own.resized(self.times * own.width, self.times * own.height)
        self.goals = sorted(goals, key=lambda goal: goal.frame)
        self.edges = [self._edge(goal) for goal in self.goals]

    @property
    def is_wide(self) -> bool:
        """Whether there is no room for two pictures side by side."""
        return self.camera.width > WIDE * self.camera.height

    def film(self, motion: Trajectory) -> np.ndarray:
        """The first world's motion and the goal (frames, height, width, 3) uint8."""
        shown, pictures = self._shown(motion), self.frames(motion)
        axis = 0 if self.is_wide else 1
        gap = np.full_like(pictures[0], 255).take(range(GAP), axis)
        frames = []
        for k, picture in zip(shown, pictures, strict=True):
            due = self._due(k)
            beside = self.enlarged(self.goals[due])
            frames.append(np.concatenate([self._outlined(picture, due), gap, beside], axis))
        return np.stack(frames)

    def frames(self, motion: Trajectory) -> np.ndarray:
        """The first world's motion alone (frames, height, width, 3) uint8."""
        return np.stack([to_bytes(image) for image in self._artist(motion).draw(_first(motion, self._shown(motion)))])

    def instants(self, motion: Trajectory) -> np.ndarray:
        """Some instants of the first world's motion in one picture (height, width, 3) uint8, the last one clearest."""
        chosen = evenly(len(motion.times), min(INSTANTS, len(motion.times)))
        surface, artist, bodies = _first(motion, chosen), self._artist(motion), list(self.scene.bodies)
        pictures = [image.numpy() for image in artist.draw(surface)]
        shares = [share.numpy() for share in artist.share(surface, bodies)]
        whole = strip(pictures, shares, artist.without(surface, bodies).numpy())
        return self._outlined(to_bytes(whole), -1)

    def enlarged(self, goal: Sought) -> np.ndarray:
        """The goal's picture as large as the film (height, width, 3) uint8."""
        return to_bytes(goal.picture).repeat(self.times, 0).repeat(self.times, 1)

    def _shown(self, motion: Trajectory) -> list[int]:
        count = len(motion.times)
        return list(range((count - 1) % self.every, count, self.every))

    def _artist(self, motion: Trajectory) -> FrameRenderer:
        looks = [part.look for part in motion.drawn.parts]
        return FrameRenderer(
            fitting(self.scene, looks), self.camera, Shading.of(self.scene, None), self.scene.background
        )

    def _due(self, frame: int) -> int:
        """Which goal is due next, or was last."""
        return next((k for k, goal in enumerate(self.goals) if goal.frame >= frame), -1)

    def _outlined(self, picture: np.ndarray, goal: int) -> np.ndarray:
        """With the edge of where a goal is."""
        return np.where(self.edges[goal][..., None], EDGE, picture)

    def _edge(self, goal: Sought) -> np.ndarray:
        """Pixels of the enlarged picture (height, width) just outside of where the goal is."""
        small = torch.tensor(np.asarray(goal.inside, np.float64))[None, None]
        size = self.camera.height, self.camera.width
        inside = interpolate(small, size, mode="bilinear", align_corners=False) > 0.5
        grown = max_pool2d(inside.double(), 5, 1, 2) > 0.5
        return (grown & ~inside)[0, 0].numpy()


def write_film(path: Path, frames: np.ndarray, fps: float) -> bool:
    """Write a film without loss, or where that is large a preview; whether it is lossless."""
    videos.write(path, frames, fps)
    if path.stat().st_size < LARGE:
        return True
    videos.write_preview(path, frames, fps)
    return False


def _first(motion: Trajectory, frames: list[int]) -> Surface:
    drawn = motion.drawn
    return Surface(drawn.vertices[:1, frames].detach(), drawn.parts)
