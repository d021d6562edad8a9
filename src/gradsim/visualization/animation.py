"""Short animations that a notebook shows and plays."""

import base64
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gradsim import video as videos
from gradsim.errors import InputError
from gradsim.visualization.frames import FrameRenderer, default_renderer

if TYPE_CHECKING:
    from gradsim.physics import Trajectory
    from gradsim.scene import Scene

WIDTH = 320  # [px] at least, in a notebook


@dataclass(frozen=True, eq=False)
class Animation:
    """Frames that a notebook plays in a loop.

    Args:
        frames: Images (frames, 3, height, width) in [0, 1], such as `renderer(surface)[0]`, or uint8 (frames, height,
            width, 3), as `gradsim.video.read` returns them.
        fps: Frames per second, above 0.

    Raises:
        InputError: If frames have another shape, or there are none, or `fps` is not above 0.

    Example:
        >>> import gradsim as gs
        >>> scene = gs.Scene.library("throw")
        >>> gs.Animation.of(gs.Model(scene).rollout(), scene)
        Animation(31 frames of 360×240 at 30 per second)
    """

    frames: Tensor | np.ndarray
    fps: float = 30.0
    pixels: np.ndarray = field(init=False, repr=False)

    def __post_init__(self):
        frames = self.frames
        if isinstance(frames, Tensor):
            if frames.ndim == 4 and frames.shape[1] == 3:
                frames = frames.detach().cpu().movedim(1, -1).clamp(0, 1).mul(255).round().to(torch.uint8)
            frames = frames.detach().cpu().numpy()
        if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8 or not frames.size:
            raise InputError(
                f"an animation has frames of shape {tuple(self.frames.shape)}; give (frames, 3, height, width) in [0, 1], one "
                "world of what a renderer returns, or uint8 (frames, height, width, 3)."
            )
        if not self.fps > 0:
            raise InputError(f"`fps` is {self.fps}; give a number above 0.")
        object.__setattr__(self, "pixels", frames)

    @classmethod
    def of(
        cls, trajectory: "Trajectory", scene: "Scene", camera: str = "camera", height: int = 240, world: int = 0
    ) -> "Animation":
        """A world of a trajectory, as a camera of its scene sees it, in flat colors.

        Args:
            trajectory: Result of a rollout.
            scene: Its scene.
            camera: Name of the camera.
            height: Height of the images [px]; the field of view is that of the camera.
            world: Number of the world; -1 is the last.

        Raises:
            InputError: If the trajectory has no such world.
        """
        from gradsim.render.camera import from_scene
        from gradsim.render.shading.shading import Shading

        view = from_scene(scene.view(camera))
        view = view.resized(round(height * view.width / view.height), height)
        surface = trajectory.scene_surface
        worlds = len(surface.vertices)
        if not -worlds <= world < worlds:
            raise InputError(f"got world {world}; the trajectory has worlds 0 to {worlds - 1}.")
        surface = surface.at(slice(None), slice(world % worlds, world % worlds + 1))
        name = default_renderer(scene, [part.appearance for part in surface.parts], view)
        with torch.no_grad():
            images = list(FrameRenderer(name, view, Shading(), tuple(scene.background)).draw(surface))
        return cls(torch.stack(images).movedim(-1, 1), scene.timing.fps)

    def __repr__(self) -> str:
        count, height, width, _ = self.pixels.shape
        return f"Animation({count} frames of {width}×{height} at {self.fps:g} per second)"

    def save(self, path: str | Path) -> Path:
        """Write a small lossy video (.webm, .mp4 or .gif), for display and not for fits; returns its path."""
        videos.write_preview(path, self.pixels, self.fps)
        return Path(path)

    def _repr_html_(self) -> str:
        """A video that plays in a loop, for notebooks; small images are enlarged without blur."""
        with tempfile.TemporaryDirectory() as folder:
            data = self.save(Path(folder) / "animation.webm").read_bytes()
        width = max(self.pixels.shape[2], WIDTH)
        source = f"data:video/webm;base64,{base64.b64encode(data).decode()}"
        style = f"width: {width}px; max-width: 100%; image-rendering: pixelated"
        return f'<video src="{source}" style="{style}" autoplay loop muted playsinline controls></video>'
