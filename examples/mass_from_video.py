"""The mass of a box, from a video file and the push that it gets.

The video is made here, with noise, and written to disk; from then on only the file and the scene are used, and the
scene's own mass is not. Gravity cannot show a mass: the known push does.

    python examples/mass_from_video.py
"""

import tempfile
from pathlib import Path

import numpy as np

import gradsim as gs
from gradsim import video
from gradsim.identification import identify
from gradsim.render import from_scene

MASS = 3.7  # [kg]
NOISE = 1 / 255  # standard deviation of a pixel

SCENE = {
    "timing": {"fps": 30, "frames": 15, "integrator": "auto"},
    "bodies": {
        "box": {
            "shape": {"box": {"size": [0.6, 0.48, 0.36]}},
            "mass": MASS,
            "position": [-0.5, 0, 0.9],
            "rotation_vector": [0.1, 0.4, 0.1],
            "pushes": [{"impulse": [5, 1, 3], "point": [-0.3, -0.1, 0.05]}],
        }
    },
    "camera": {"size": [48, 48], "look_at": {"eye": [0, -4, 1], "target": [0, 0, 0.7], "fov": "45 deg"}},
}


def write_video(scene, path: Path, seed: int = 0) -> None:
    """Write a noisy 8-bit video of the scene, without loss."""
    trajectory = gs.Model(scene).rollout()
    frames = gs.Silhouettes(from_scene(scene.camera), scene.background)(trajectory.surface)[0]
    image = frames.detach().permute(0, 2, 3, 1).numpy()
    image = image + NOISE * np.random.default_rng(seed).standard_normal(image.shape)
    video.write(path, (image * 255).round().clip(0, 255).astype(np.uint8), scene.timing.fps)


def main() -> gs.Fit:
    scene = gs.Scene.parse(SCENE)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "box.webm"
        write_video(scene, path)
        fit = identify(scene, ["box.mass:1:12"], gs.Clip(path, noise=NOISE), starts=4)
    print(f"{fit.table}\ntruth     {MASS} kg")
    return fit


if __name__ == "__main__":
    main()
