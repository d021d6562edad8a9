"""Pose of the camera and light, from one picture of known things.

The truth and all starts are drawn all around the things. Transport of each thing's mask brings the camera near, from some
of them; then pixels decide the rest, with direction and colours of the light. The start of lowest loss counts.

    python examples/camera_and_light.py
"""

import torch

import gradsim as gs
from gradsim.geometry import image_io
from gradsim.losses import mse, transport
from gradsim.numerics.rotation import exponential, from_matrix, logarithm, to_matrix
from gradsim.render import Ambient, Directional, Shading, from_scene, look_at

SCENE = gs.Scene.load(__file__.replace("camera_and_light.py", "still_life.yaml"))
LENS, THINGS = from_scene(SCENE.view("camera")), gs.Model(SCENE).requires_grad_(False).rollout(frames=1).surface


def somewhere(generator) -> tuple[torch.Tensor, torch.Tensor]:
    """A camera's rotation vector and translation (6,); a light's direction and colour, and that all around (9,)."""
    x = torch.rand(15, generator=generator, dtype=torch.float64)
    eye = (2.5 + 1.5 * x[0]) * torch.stack([(2 * torch.pi * x[1]).cos(), (2 * torch.pi * x[1]).sin(), 0.1 + x[2]])
    view = look_at(eye.tolist(), (0.8 * x[3:6] - 0.4).tolist(), (0, 0, 1), 0.6, LENS.width, LENS.height)
    return torch.cat([logarithm(from_matrix(view.R)), view.t]), x[6:] - torch.tensor([0.5, 0.5, 1.2, *6 * [0]])


def seen(pose, light, samples: int = 1) -> gs.Renderer:
    camera = gs.Camera(LENS.K, to_matrix(exponential(pose[:3])), pose[3:], LENS.width, LENS.height)
    shading = Shading("phong", (Directional(*light[:6].split(3)), Ambient(light[6:])))
    return gs.Renderer(camera, shading=shading, samples=samples)


def main(starts: int = 6, iterations: int = 150, folder: str = "runs/examples", seed: int = 1) -> list[float]:
    """Writes before, target and after; returns how far off the camera is [m], before and after."""
    generator, ends = torch.Generator().manual_seed(seed), []
    truth, *firsts = (somewhere(generator) for _ in range(starts + 1))
    right, target, masks = seen(*truth), seen(*truth, samples=4)(THINGS), seen(*truth, samples=4).masks(THINGS)[0]
    far, near = (lambda see: transport(see.masks(THINGS), masks)), (lambda see: mse(see(THINGS), target))
    for first in firsts:
        found = [x.clone().requires_grad_() for x in first]
        for loss, unknowns, rate in ((far, found[:1], 0.05), (near, found, 0.02)):
            search = torch.optim.Adam(unknowns, rate)
            for _ in range(iterations):
                search.zero_grad()
                (value := loss(seen(found[0], found[1])).sum()).backward()
                search.step()
        ends.append((value.item(), first, found))
    _, first, found = min(ends, key=lambda end: end[0])
    before, after = (seen(*(x.detach() for x in each)) for each in (first, found))
    image_io.write(f"{folder}/camera.png", before(THINGS)[0, 0], target[0, 0], after(THINGS)[0, 0])
    away = [(view.camera.centre - right.camera.centre).norm().item() for view in (before, after)]
    print(f"camera {away[0]:.2f} m off, then {away[1]:.4f} m")
    return away


if __name__ == "__main__":
    main()
