"""A ball and a box, a ramp and a post: two masses and one friction from one film.

The two come down a ramp, and the ball bounces off a post. Each gets a known push, which shows its
mass; both have the same friction, one number tied to two names. Bodies do not touch one another.

    python examples/two_bodies.py
"""

import torch

import gradsim as gs
from gradsim.identification import identify

TRUTH = {"ball.mass": 1.7, "box.mass": 3.2, "ball.friction=box.friction": 0.35}
CONTACT = {"stiffness": 2e4, "dissipation": 1, "friction_stiffness": 60}
SCENE = {
    "timing": {"fps": 30, "frames": 16, "substeps": 20},
    "bodies": {
        "ball": {
            "shape": {"sphere": {"radius": 0.15}},
            "mass": 1,
            "position": [-0.7, 0.3, 0.75],
            "friction": 0.5,
            "pushes": [{"impulse": [2.5, 0, 0], "point": [0, 0, 0.05]}],
        },
        "box": {
            "shape": {"box": {"size": [0.3, 0.24, 0.2]}},
            "mass": 1,
            "position": [-0.6, -0.4, 0.75],
            "rotation_vector": [0, 0.2, 0],
            "friction": 0.5,
            "pushes": [{"impulse": [6, 0, 0], "point": [-0.1, -0.05, 0.02]}],
        },
    },
    "grounds": {"floor": CONTACT, "ramp": {**CONTACT, "normal": [0.4, 0, 1], "height": 0.2}},
    "obstacles": {"post": {**CONTACT, "radius": 0.2, "position": [0.6, 0.35, 0.2]}},
    "camera": {"size": [40, 40], "look_at": {"eye": [0, -3.4, 1.4], "target": [0, 0, 0.3], "fov": "45 deg"}},
}


def main() -> gs.Fit:
    scene = gs.Scene.parse(SCENE)
    model, silhouettes = gs.Model(scene), gs.Silhouettes.of(scene)
    values = {n: torch.tensor([v], dtype=torch.float64) for key, v in TRUTH.items() for n in key.split("=")}
    with torch.no_grad():
        masks = silhouettes.union(model.rollout(values).surface)[0]
    seen = gs.Masks(masks, 1 / 255, silhouettes)
    ranges = ["ball.mass:0.5:5", "box.mass:1:8", "ball.friction=box.friction:0.1:0.8"]
    fit = identify(scene, ranges, observation=seen, starts=6)
    print(fit.table, *(f"truth  {name}  {value:g}" for name, value in TRUTH.items()), sep="\n")
    return fit


if __name__ == "__main__":
    main()
