"""A texture from pictures: what is painted on a ball, from eight pictures of it.

The pictures were taken with sixteen samples a pixel, of a painting with other texels than the one that is sought, which
starts grey. Light is known; what it leaves dark and the poles, which few pixels show, stay less sure.

    python examples/texture_from_image.py
"""

import math

import torch

import gradsim as gs
from gradsim.geometry import image_io, mesh
from gradsim.losses import mse
from gradsim.numerics.rotation import exponential, rotate
from gradsim.render import look_at

VIEWS, BALL = 8, mesh.sphere(0.5, 3)
CAMERA = look_at(eye=(0, -3, 0.6), target=(0, 0, 0), up=(0, 0, 1), fov_y=0.4, width=96, height=96)


def painting(height: int, width: int) -> torch.Tensor:
    """Waves of three colours (3, height, width) in [0, 1] that close around the ball."""
    v, u = torch.meshgrid(torch.linspace(0, 1, height), torch.arange(width) / width * 2 * math.pi, indexing="ij")
    wave = lambda a, b, c: torch.sin(a * u + b * torch.sin(4 * v + a)) * torch.sin(c * v)
    return torch.stack([wave(3, 2, 5), wave(4, 3, 7), wave(2, 5, 9)]).mul(3).tanh().mul(0.45).add(0.5).double()


def main(iterations: int = 150, folder: str = "runs/examples") -> tuple[float, float]:
    """Writes before, target, after, and the texture; returns its rms error between the poles, before and after."""
    turns = exponential(torch.arange(VIEWS)[:, None] * 2 * math.pi / VIEWS * torch.tensor([0.3, 0.0, 1.0]).double())
    vertices = rotate(turns[:, None], torch.tensor(BALL.vertices))[None]

    def ball(texture: torch.Tensor) -> gs.Surface:
        look = gs.Appearance(
            uv=torch.tensor(BALL.uv), uv_faces=torch.tensor(BALL.uv_faces), texture=texture, smooth=True
        )
        return gs.Surface.of(vertices, BALL.faces, look, convex=True)

    target = gs.Renderer(CAMERA, shading="lambert", samples=4)(ball(painting(256, 512)))
    render, texture = gs.Renderer(CAMERA, shading="lambert"), torch.full((3, 64, 128), 0.5).double().requires_grad_()
    search, seen = torch.optim.Adam([texture], lr=0.03), []
    for _ in range(iterations + 1):
        image = render(ball(texture))
        seen.append((image[0, 0].detach(), texture.detach().clone()))
        search.zero_grad()
        mse(image, target).sum().backward()
        search.step()
    truth = painting(64, 128)
    errors = [(x - truth)[:, 8:-8].square().mean().sqrt().item() for _, x in (seen[0], seen[-1])]
    image_io.write(f"{folder}/texture.png", seen[0][0], target[0, 0], seen[-1][0])
    image_io.write(f"{folder}/texels.png", truth, seen[-1][1])
    print(f"rms error of the texture: {errors[0]:.3f} before, {errors[1]:.4f} after")
    return errors[0], errors[1]


if __name__ == "__main__":
    main()
