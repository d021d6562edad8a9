"""Physics and pixels as a layer of PyTorch: throw a ball so that its last frame is a goal picture.

The start velocity is a tensor like any other: its gradient comes back from the pixels, through the renderer, a bounce
and the flight.

    python examples/throw_to_a_picture.py
"""

import torch

import gradsim as gs
from gradsim.losses import transport
from gradsim.render import look_at

SCENE = {
    "timing": {"fps": 30, "frames": 24},
    "bodies": {
        "ball": {"shape": {"sphere": {"radius": 0.15, "subdivisions": 2}}, "mass": 1, "position": [-0.8, 0, 0.6]}
    },
    "ground": {"stiffness": "5 kN/m", "dissipation": 0.2},
}
CAMERA = look_at(eye=(0, -3, 0.8), target=(0, 0, 0.5), up=(0, 0, 1), fov_y=0.8, width=64, height=48)
GOAL = (2.0, 0.5)  # [m/s] to the right and up: what makes the goal picture; the search never sees it


def main(iterations: int = 20) -> float:
    """Returns how far from the goal the ball ends [m]."""
    model, silhouettes = gs.Model(gs.Scene.parse(SCENE)), gs.Silhouettes(CAMERA)

    def throw(velocity: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Last picture (height, width) and place (3,) of the ball, thrown at (right, up) [m/s]."""
        right, up = velocity
        trajectory = model.rollout({"ball.velocity": torch.stack([right, 0 * right, up])[None]})
        last = gs.Surface(trajectory.surface.vertices[:, -1:], trajectory.surface.parts)
        return silhouettes.masks(last)[0, 0, 0], trajectory["ball"]["x"][0, -1]

    with torch.no_grad():
        goal, place = throw(torch.tensor(GOAL, dtype=torch.float64))
    velocity = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([velocity], max_iter=iterations, line_search_fn="strong_wolfe", tolerance_change=1e-14)

    def closure() -> torch.Tensor:
        search.zero_grad()
        picture, at = throw(velocity)
        loss = transport(picture[None], goal)[0]  # sees the ball anywhere in the picture, unlike a difference of pixels
        loss.backward()
        print(f"loss {loss.item():.1e}   {(at - place).norm().item():.6f} m from the goal")
        return loss

    search.step(closure)
    with torch.no_grad():
        return (throw(velocity)[1] - place).norm().item()


if __name__ == "__main__":
    main()
