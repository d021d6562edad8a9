"""Physics and pixels as a layer of PyTorch: throw a ball so that its last frame is a goal picture.

The start velocity is a tensor like any other: its gradient comes back from the pixels, through the renderer, a bounce
and the flight. Bounces make local minima, so a dozen throws descend side by side, one in each world.

    python examples/throw_to_an_image.py
"""

import torch

import gradsim as gs
from gradsim.losses import transport
from gradsim.render import look_at

SCENE = {
    "timing": {"fps": 30, "frames": 24},
    "bodies": {
        "ball": {"shape": {"sphere": {"radius": 0.15, "subdivisions": 1}}, "mass": 1, "position": [-0.8, 0, 0.6]}
    },
    "ground": {"stiffness": "5 kN/m", "dissipation": 0.2},
}
CAMERA = look_at(eye=(0, -3, 0.8), target=(0, 0, 0.5), up=(0, 0, 1), fov_y=0.8, width=64, height=48)
GOAL = (2.0, 0.5)  # [m/s] to the right and up: what makes the goal picture; the search never sees it


def main(iterations: int = 100, throws: int = 12) -> float:
    """Returns how far from the goal the ball of the best throw ends [m]."""
    model, silhouettes = gs.Model(gs.Scene.parse(SCENE)), gs.Silhouettes(CAMERA)

    def throw(velocity: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Last pictures (throws, height, width) and places (throws, 3), from velocities (throws, 2) right and up."""
        right, up = velocity.unbind(1)
        trajectory = model.rollout({"ball.velocity": torch.stack([right, 0 * right, up], 1)})
        surface = trajectory.surface
        last = gs.Surface(surface.vertices[:, -1:], surface.parts)
        return silhouettes.masks(last)[:, 0, 0], trajectory["ball"]["x"][:, -1]

    with torch.no_grad():
        goal, place = throw(torch.tensor([GOAL], dtype=torch.float64))
    torch.manual_seed(0)
    velocity = (4 * torch.rand(throws, 2, dtype=torch.float64) - 2).requires_grad_()
    search = torch.optim.Adam([velocity], lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(search, iterations)
    for iteration in range(iterations + 1):
        image, at = throw(velocity)
        loss = transport(image, goal)  # sees the ball anywhere in the picture, unlike a difference of pixels
        best, distance = int(loss.argmin()), (at - place).norm(dim=1)
        if iteration % 10 == 0:
            print(f"{iteration:3}   loss {loss[best]:.1e}   {distance[best]:.6f} m from the goal")
        search.zero_grad()
        loss.sum().backward()
        search.step()
        schedule.step()
    return distance[best].item()


if __name__ == "__main__":
    main()
