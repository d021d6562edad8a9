"""Vertex positions to a silhouette: a ball becomes a flower that was drawn without a renderer.

The ball starts anywhere in the picture, with any size. A loss that sees far brings it to the flower, one that is exact
finishes. Only the outline has a gradient; smooth steps take the vertices around it along.

    python examples/silhouette_from_vertices.py
"""

import torch

import gradsim as gs
from gradsim.geometry import image_io, mesh
from gradsim.losses import coarse_to_fine, smoothing
from gradsim.render import look_at

SIZE = 128  # [px]
CAMERA = look_at(eye=(0, -5, 0), target=(0, 0, 0), up=(0, 0, 1), fov_y=0.5, width=SIZE, height=SIZE)
BALL = mesh.sphere(1.0, 3)


def flower(samples: int = 8) -> torch.Tensor:
    """Share of each pixel inside r = 38 + 13 sin 5φ pixels (height, width), by counting samples."""
    place = (torch.arange(SIZE * samples) + 0.5) / samples - SIZE / 2
    x, y = place[None, :] - 8, -place[:, None] + 5
    inside = torch.hypot(x, y) < 38 + 13 * torch.sin(5 * torch.atan2(y, x))
    return inside.double().view(SIZE, samples, SIZE, samples).mean((1, 3))


def main(iterations: int = 300, folder: str = "runs/examples", seed: int = 0) -> tuple[float, float]:
    """Writes before, target and after; returns intersection over union with the target, before and after."""
    radius, right, up = torch.rand(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tolist()
    place = torch.tensor([1.6 * right - 0.8, 0.0, 1.6 * up - 0.8])
    vertices = (0.1 + 0.3 * radius) * torch.tensor(BALL.vertices) + place
    faces = torch.tensor(BALL.faces)
    smooth, rough = smoothing(faces, len(vertices), 5.0)
    u, target, render = (rough @ vertices).requires_grad_(), flower(), gs.Renderer(CAMERA)
    schedule = coarse_to_fine("cdf", "iou", (iterations // 5, iterations - iterations // 5))
    search, seen = torch.optim.Adam([u], lr=0.02), []
    for iteration in range(iterations + 1):
        alpha = render.alpha(gs.Surface.of(smooth @ u, faces))[0]
        seen.append(alpha.detach())
        search.zero_grad()
        schedule.at(iteration)(alpha[None], target).sum().backward()
        search.step()
    before, after = seen[0], seen[-1]
    image_io.write(f"{folder}/silhouette.png", *(1 - x.expand(3, -1, -1) for x in (before, target, after)))
    overlap = [(torch.minimum(x[0], target).sum() / torch.maximum(x[0], target).sum()).item() for x in (before, after)]
    print(f"intersection over union: {overlap[0]:.3f} before, {overlap[1]:.4f} after")
    return overlap[0], overlap[1]


if __name__ == "__main__":
    main()
