"""Films and pictures of a controller at work: the motion left with the goal's outline over it, the goal right."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import interpolate, max_pool2d

from gradsim import video as videos
from gradsim.experiments.films import EDGE, factor
from gradsim.physics.trajectory import Trajectory
from gradsim.picture import to_bytes
from gradsim.render.artists import Artist, fitting
from gradsim.render.camera import from_scene
from gradsim.render.shading import Shading
from gradsim.surface import Surface
from gradsim.video.sheet import evenly
from gradsim.video.strip import strip

INSTANTS = 6  # of a motion in one picture
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
    """

    def __init__(self, scene, camera: str, goals: list[Sought]):
        self.goals, self.fps = sorted(goals, key=lambda goal: goal.frame), scene.timing.fps
        own = from_scene(scene.view(camera))
        self.times = factor(np.empty((1, own.height)))
        self.camera = own.resized(self.times * own.width, self.times * own.height)
        self.scene = scene

    def film(self, motion: Trajectory) -> np.ndarray:
        """The first world's motion beside the goal (frames, height, width, 3) uint8."""
        pictures = [to_bytes(image) for image in self._artist(motion).draw(_first(motion))]
        gap = np.full((len(pictures[0]), 2 * self.times, 3), 255, np.uint8)
        frames = []
        for k, picture in enumerate(pictures):
            goal = self._goal(k)
            frames.append(np.concatenate([self._outlined(picture, goal), gap, self.enlarged(goal)], 1))
        return np.stack(frames)

    def instants(self, motion: Trajectory) -> np.ndarray:
        """Some instants of the first world's motion in one picture (height, width, 3) uint8, the last one clearest."""
        chosen = evenly(len(motion.times), min(INSTANTS, len(motion.times)))
        surface, artist, bodies = _first(motion, chosen), self._artist(motion), list(self.scene.bodies)
        pictures = [image.numpy() for image in artist.draw(surface)]
        shares = [share.numpy() for share in artist.share(surface, bodies)]
        whole = strip(pictures, shares, artist.without(surface, bodies).numpy())
        return self._outlined(to_bytes(whole), self.goals[-1])

    def enlarged(self, goal: Sought) -> np.ndarray:
        """The goal's picture as large as the film (height, width, 3) uint8."""
        return to_bytes(goal.picture).repeat(self.times, 0).repeat(self.times, 1)

    def _artist(self, motion: Trajectory) -> Artist:
        looks = [part.look for part in motion.drawn.parts]
        return Artist(fitting(self.scene, looks), self.camera, Shading.of(self.scene, None), self.scene.background)

    def _goal(self, frame: int) -> Sought:
        """The goal that is due next, or was last."""
        return next((goal for goal in self.goals if goal.frame >= frame), self.goals[-1])

    def _outlined(self, picture: np.ndarray, goal: Sought) -> np.ndarray:
        """With the edge of where the goal is."""
        small = torch.tensor(np.asarray(goal.inside, np.float64))[None, None]
        inside = interpolate(small, picture.shape[:2], mode="bilinear", align_corners=False) > 0.5
        grown = max_pool2d(inside.double(), 5, 1, 2) > 0.5
        edge = (grown & ~inside)[0, 0].numpy()
        return np.where(edge[..., None], EDGE, picture)


def write_film(path: Path, frames: np.ndarray, fps: float) -> bool:
    """Write a film without loss, or where that is large a preview; whether it is lossless."""
    videos.write(path, frames, fps)
    if path.stat().st_size < LARGE:
        return True
    videos.write_preview(path, frames, fps)
    return False


def _first(motion: Trajectory, frames: slice | list[int] = slice(None)) -> Surface:
    drawn = motion.drawn
    return Surface(drawn.vertices[:1, frames].detach(), drawn.parts)
