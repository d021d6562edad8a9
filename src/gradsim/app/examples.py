"""Clips of the scenes of the library, for first steps without a camera."""

from pathlib import Path

import torch

from gradsim.errors import InputError
from gradsim.identification import synthetic
from gradsim.physics import Model
from gradsim.physics.convergence import converged
from gradsim.scene import Scene

NOISE = 1 / 255  # standard deviation of a pixel, before rounding to 8 bits
STEPS_FACTOR = 4  # times as many steps as a simulation takes, so that errors of the steps are far below the noise

__all__ = ["clip"]


def clip(scene: str | Scene = "cube", path: str | Path | None = None, noise: float = NOISE, seed: int = 0) -> Path:
    """Write a lossless 8-bit clip of a scene, with noise, in place of a clip by a camera.

    Motion and images are gradsim's, so a fit to them tests the method, not the model. Steps are those of the scene; where
    these are `auto`, four times as fine as a simulation's.

    Args:
        scene: A scene with a camera, or the name of one of the library, such as "cube"; `Scene.library_names()` lists them.
        path: Video to write (.webm, .mp4, .gif); by default NAME.webm, or clip.webm, in the current folder. An existing file
            is replaced.
        noise: Standard deviation of a pixel, of 1, before it is rounded to 8 bits; at least 0.
        seed: Seed of the noise.

    Returns:
        Path of the video.

    Raises:
        InputError: If the library has no such scene, it has no camera, `noise` is below 0 or above 1, or the path has another
            suffix.

    Example:
        >>> import gradsim as gs
        >>> gs.examples.clip("throw").name
        'throw.webm'
    """
    if not 0 <= noise <= 1:
        raise InputError(f"`noise` is {noise}; give a standard deviation from 0 to 1, of images in [0, 1].")
    path = Path(path or (f"{scene}.webm" if isinstance(scene, str) else "clip.webm"))
    scene = Scene.library(scene) if isinstance(scene, str) else scene
    scene.view()
    model = Model(scene)
    if scene.timing.substeps == "auto":
        model = model.with_substeps(STEPS_FACTOR * converged(model).model.substeps)
    with torch.no_grad():
        trajectory = model.rollout()
    frames = synthetic.noisy_8bit(synthetic.render_video(scene, trajectory), noise, seed)
    return synthetic.write_video(path, frames, scene.timing.fps)
