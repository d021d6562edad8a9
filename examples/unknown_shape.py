"""The shape of an unknown body from its silhouettes: a ball becomes three capsules through one another.

Twelve silhouettes from all around are given, drawn by scanlines and not by the renderer that fits them. Laplacian and
flatness decide what no silhouette shows. Twelve more, from places in between, say how right the shape is.

    python examples/unknown_shape.py
"""

import numpy as np
import torch

import gradsim as gs
from gradsim.geometry import image_io, mesh
from gradsim.losses import IoU, flatness, laplacian, smoothing
from gradsim.numerics.rotation import exponential, rotate
from gradsim.render import look_at
from gradsim.render.reference import scanline

VIEWS, LOOK = 12, gs.Appearance((0.9, 0.6, 0.2), smooth=True)
BALL = mesh.sphere(0.5, 3)
RODS = [mesh.capsule(*size, 24, 6) for size in ((0.22, 1.2), (0.18, 0.9), (0.26, 0.5))]
TRUTH = mesh.joined([mesh.Mesh(np.roll(rod.vertices, k, 1), rod.faces) for k, rod in enumerate(RODS)])


def turned(vertices: torch.Tensor, shift: float) -> torch.Tensor:
    """Vertices in all views (1, VIEWS, n, 3): two turns while it nods; a shift of 0.5 is in between."""
    angle = (torch.arange(VIEWS).double() + shift)[:, None, None] * 4 * torch.pi / VIEWS
    upright = rotate(exponential(angle * torch.tensor([0.0, 0.0, 1.0])), vertices)
    return rotate(exponential(1.2 * torch.sin(angle / 2 + 0.4) * torch.tensor([1.0, 0.0, 0.0])), upright)[None]


def main(iterations: int = 300, folder: str = "runs/examples", size: int = 96) -> list[float]:
    """Writes before, target, after, truth; returns intersection over union in the views between, before and after."""
    camera = look_at(eye=(0, -5, 0), target=(0, 0, 0), up=(0, 0, 1), fov_y=0.4, width=size, height=size)
    lens = camera.K, camera.R, camera.t, (size, size)
    start, truth = torch.tensor(BALL.vertices), torch.tensor(TRUTH.vertices)
    given, between = (torch.tensor(scanline.masks(turned(truth, s).numpy(), [TRUTH.faces], *lens)) for s in (0.0, 0.5))
    faces = torch.tensor(BALL.faces)
    smooth, rough = smoothing(faces, len(start), 5.0)
    u, iou, render = (rough @ start).requires_grad_(), IoU(), gs.Renderer(camera, shading="phong")
    search = torch.optim.Adam([u], lr=0.01)
    for _ in range(iterations):
        x = smooth @ u
        loss = iou(render.alpha(gs.Surface.of(turned(x, 0), faces)), given)
        search.zero_grad()
        (loss + 0.3 * laplacian(x, faces) + 0.003 * flatness(x, faces)).sum().backward()
        search.step()
    before, after = (gs.Surface.of(turned(x, 0.5), faces, LOOK) for x in (start, (smooth @ u).detach()))
    overlap = [1 - iou(render.alpha(surface), between).item() for surface in (before, after)]
    images = [render(s)[0, 0] for s in (before, after, gs.Surface.of(turned(truth, 0.5), TRUTH.faces, LOOK))]
    image_io.write(f"{folder}/shape.png", images[0], 1 - between[0].expand(3, -1, -1), *images[1:])
    print(f"intersection over union in new views: {overlap[0]:.3f} before, {overlap[1]:.4f} after")
    return overlap


if __name__ == "__main__":
    main()
