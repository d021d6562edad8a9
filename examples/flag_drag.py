"""The drag and lift of a flag, from a video of the wind taking it.

Only its outline is used. Its weight, which is known, says how strong the wind's forces are. The video is made here, with
noise and steps four times as fine as the fit's, which leave more than error bars of the noise say: half a per cent.

    python examples/flag_drag.py
"""

import tempfile
from pathlib import Path

import numpy as np

import gradsim as gs
from gradsim import video

TRUTH = {"flag.air.drag": 1.2, "flag.air.lift": 0.8}
NOISE = 1 / 255  # standard deviation of a pixel

SCENE = {
    "timing": {"fps": 30, "frames": 12, "substeps": 60},
    "bodies": {
        "flag": {
            "kind": "cloth",
            "shape": {"grid": {"size": [0.6, 0.4], "cells": [9, 6]}},
            "density": "0.2 kg/m^2",
            "mu": 60,
            "lam": 60,
            "damping": 0.02,
            "bending": 2e-4,
            "air": {"drag": TRUTH["flag.air.drag"], "lift": TRUTH["flag.air.lift"], "wind": [4, 1.5, 0]},
            "rotation_vector": ["90 deg", 0, 0],
            "pinned": ["-x+y", "-x-y"],
        }
    },
    "camera": {"size": [64, 48], "look_at": {"eye": [0.1, -1.6, 0.1], "target": [0, 0, -0.05], "fov": "36 deg"}},
}


def write_video(scene: gs.Scene, path: Path, seed: int = 0) -> None:
    """Write a noisy 8-bit video of the scene, without loss."""
    surface = gs.Model(scene, substeps=240).rollout().surface  # four times the steps of the fit
    frames = gs.Renderer.of(scene)(surface)[0].detach().permute(0, 2, 3, 1).numpy()
    frames = frames + NOISE * np.random.default_rng(seed).standard_normal(frames.shape)
    video.write(path, (frames * 255).round().clip(0, 255).astype(np.uint8), scene.timing.fps)


def main(starts: int = 3) -> gs.Fit:
    scene = gs.Scene.parse(SCENE)
    with tempfile.TemporaryDirectory() as folder:
        write_video(scene, path := Path(folder) / "flag.webm")
        unknowns = ["flag.air.drag:0.3:3", "flag.air.lift:0.2:2"]
        fit = gs.identify(scene, unknowns, gs.Clip(path, noise=NOISE), starts=starts)
    print(fit.table, *(f"truth  {name}  {value:g}" for name, value in TRUTH.items()), sep="\n")
    return fit


if __name__ == "__main__":
    main()
