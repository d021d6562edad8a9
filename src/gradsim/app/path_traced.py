"""Films by Mitsuba: the same scene, camera and lights, path traced."""

import torch
from torch import Tensor

from gradsim.identify.progress import Progress, Silent
from gradsim.physics.trajectory import Trajectory
from gradsim.render.mitsuba import Mitsuba
from gradsim.surface import Surface


def mitsuba_frames(
    scene, trajectory: Trajectory, camera: str = "camera", spp: int = 64, progress: Progress | None = None
) -> Tensor:
    """What a camera of the scene sees of the first world, (frames, height, width, 3) in [0, 1].

    Args:
        scene: For its camera, lights, shading and background.
        trajectory: Its motion.
        camera: Name of the camera.
        spp: Samples per pixel.
        progress: Is told which frame is at work.

    Raises:
        InputError: If Mitsuba is not installed, or the scene has no such camera.
    """
    progress, renderer = progress or Silent(), Mitsuba.of(scene, camera, spp=spp)
    drawn, frames = trajectory.drawn, []
    surface = Surface(drawn.vertices[:1], drawn.parts)
    with torch.no_grad():
        progress.stage(f"path tracing frame 1 of {surface.vertices.shape[1]}")
        for k, frame in enumerate(renderer.frames(surface), 2):
            frames.append(frame.movedim(0, -1).clamp(0, 1))
            if k <= surface.vertices.shape[1]:
                progress.stage(f"path tracing frame {k} of {surface.vertices.shape[1]}")
    return torch.stack(frames)
