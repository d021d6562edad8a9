"""The length of a pendulum's string from its film, with error bars, where start and damping are unknown too.

python examples/string_of_a_pendulum.py
"""

import numpy as np
import torch

import gradsim as gs
from gradsim.identification import identify
from gradsim.render import look_at

LENGTH = 0.47  # [m]
NOISE = 1 / 255  # standard deviation of a pixel

SCENE = {
    "timing": {"fps": 15, "frames": 12, "substeps": 8},
    "bodies": {
        "bob": {
            "kind": "pendulum",
            "pivot": [0, 0, 1],
            "string_length": LENGTH,
            "radius": "5 cm",
            "angle": "50 deg",
            "damping": 0.1,
        }
    },
}
CAMERA = look_at(eye=(0, -2.2, 0.7), target=(0, 0, 0.7), up=(0, 0, 1), fov_y=0.6, width=64, height=48)
UNKNOWNS = [
    "bob.string_length:0.1:2.5",
    "bob.angle:0.2:1.5",
    "bob.damping:0.01:1",
]


def main(seed: int = 0) -> gs.Fit:
    scene = gs.Scene.parse(SCENE)
    silhouettes = gs.Silhouettes(CAMERA)
    with torch.no_grad():
        clean = silhouettes.masks(gs.Model(scene).rollout().surface)[0, :, 0]
    noise = NOISE * torch.tensor(np.random.default_rng(seed).standard_normal(clean.shape))
    seen = gs.Masks(clean + noise, NOISE, silhouettes)

    fit = identify(scene, UNKNOWNS, observation=seen, starts=4, seed=seed)
    print(f"{fit.table}\n{fit.status}: χ²/N {fit.chi2_per_n:.2f}, string is {LENGTH} m")
    return fit


if __name__ == "__main__":
    main()
