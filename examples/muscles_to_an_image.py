"""A soft body as a layer of PyTorch: which muscles of an arm, its tetrahedra, make its last frame a goal picture.

Run it as `python examples/muscles_to_an_image.py`.
"""

import torch

import gradsim as gs
from gradsim.geometry import image_io
from gradsim.losses import coarse_to_fine
from gradsim.render import look_at

SCENE = {
    "gravity": 0,
    "timing": {"fps": 30, "frames": 15},
    "bodies": {
        "arm": {
            "kind": "solid",
            "shape": {"box": {"size": [0.8, 0.12, 0.12], "cells": [8, 1, 2]}},
            "density": "1000 kg/m^3",
            "young": "30 kPa",
            "poisson": 0.4,
            "damping": "1.5 kPa s",
            "pinned": ["-x"],
        }
    },
}
CAMERA = look_at(eye=(0, -2.4, 0.1), target=(0, 0, 0.1), up=(0, 0, 1), fov_y=0.4, width=96, height=72)


def main(iterations: int = 80, folder: str = "runs/examples") -> tuple[float, float]:
    """Writes before, goal and after; returns intersection over union with the goal, before and after."""
    scene = gs.Scene.parse(SCENE)
    model, render, rest = gs.Model(scene), gs.Renderer(CAMERA), scene.bodies["arm"].rest  # pyright: ignore[reportAttributeAccessIssue]  a solid
    at = torch.tensor(rest.vertices[rest.tets].mean(1))  # middles of the tetrahedra  # pyright: ignore
    u = torch.zeros(len(at), dtype=torch.float64, requires_grad=True)

    def last(activation: torch.Tensor) -> torch.Tensor:
        surface = model.rollout({"arm.activation": activation[None]}).surface
        return render.masks(gs.Surface(surface.vertices[:, -1:], surface.parts))[0, 0].sum(0)

    with torch.no_grad():  # an S: the upper side tightens near the shoulder, the lower one further out
        before, goal = last(u), last(0.35 * torch.sign(at[:, 2]) * torch.tanh(-12 * (at[:, 0] - 0.05)))
    search, schedule = torch.optim.Adam([u], lr=0.1), coarse_to_fine("cdf", "iou", (iterations // 4, iterations))
    for iteration in range(iterations + 1):
        mask = last(0.4 * torch.tanh(u))  # of its volume, a muscle can lose or gain that much
        search.zero_grad()
        schedule.at(iteration)(mask[None], goal[None]).sum().backward()
        search.step()
    images = before, goal, mask.detach()
    image_io.write(f"{folder}/muscles.png", *(1 - x.expand(3, -1, -1) for x in images))
    overlap = [(torch.minimum(x, goal).sum() / torch.maximum(x, goal).sum()).item() for x in images[::2]]
    print(f"intersection over union: {overlap[0]:.3f} before, {overlap[1]:.4f} after")
    return overlap[0], overlap[1]


if __name__ == "__main__":
    main()
