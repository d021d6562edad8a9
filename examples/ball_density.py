"""The density of a soft ball, and how soft it is, from a video of it bouncing off a mat.

The mat is what is known: how many newtons it takes to press it in by a metre. Without that, a film shows ratios only, and
the ball could be made of anything. The video is made here, with noise and steps four times as fine as the fit's, which
leave more than error bars of the noise say: 0.05 % of the density.

    python examples/ball_density.py
"""

import tempfile
from pathlib import Path

import numpy as np

import gradsim as gs
from gradsim import video

TRUTH = {"ball.density": 640.0, "ball.young": 20e3}  # [kg/m³], [Pa]
UNKNOWNS = ["ball.density:200:2000", "ball.young:5e3:80e3"]
NOISE = 1 / 255  # standard deviation of a pixel

SCENE = {
    "timing": {"fps": 60, "frames": 12, "substeps": 60},
    "bodies": {
        "ball": {
            "kind": "solid",
            "shape": {"ball": {"radius": 0.15, "cells": 3}},
            "density": TRUTH["ball.density"],
            "young": TRUTH["ball.young"],
            "poisson": 0.4,
            "damping": "10 Pa s",
            "position": [-0.1, 0, 0.2],
            "velocity": [1.5, 0, -2],
        }
    },
    "ground": {"stiffness": "300 N/m", "dissipation": 0.2, "friction_stiffness": 2, "friction": 0.4},
    "camera": {"size": [64, 48], "look_at": {"eye": [0, -2, 0.4], "target": [0, 0, 0.2], "fov": "24 deg"}},
}


def write_video(scene: gs.Scene, path: Path, seed: int = 0) -> None:
    """Write a noisy 8-bit video of the scene, without loss."""
    surface = gs.Model(scene, substeps=240).rollout().surface  # four times the steps of the fit
    frames = gs.Renderer.of(scene)(surface)[0].detach().permute(0, 2, 3, 1).numpy()
    frames = frames + NOISE * np.random.default_rng(seed).standard_normal(frames.shape)
    video.write(path, (frames * 255).round().clip(0, 255).astype(np.uint8), scene.timing.fps)


def main(starts: int = 2) -> gs.Fit:
    scene = gs.Scene.parse(SCENE)
    with tempfile.TemporaryDirectory() as folder:
        write_video(scene, path := Path(folder) / "ball.webm")
        fit = gs.identify(scene, UNKNOWNS, gs.Clip(path, noise=NOISE), starts=starts)
    print(fit.table, *(f"truth  {name}  {value:g}" for name, value in TRUTH.items()), sep="\n")
    return fit


if __name__ == "__main__":
    main()
