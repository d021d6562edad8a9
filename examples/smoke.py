"""Smoke that forms a picture: the velocity at the start that turns a disc of it into a heart.

The unknown is a smoothed stream function, whose curl is free of divergence: the gradient is as rough as the smoke's edge.

    python examples/smoke.py
"""

from pathlib import Path

import torch

import gradsim as gs
from gradsim.geometry import image_io

N, STEPS = 40, 24


def heart(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """1 inside; x to the right and y upwards."""
    return torch.sigmoid(-60 * ((x**2 + y**2 - 1) ** 3 - x**2 * y**3))


def curl(psi: torch.Tensor) -> torch.Tensor:
    """Velocity at the lower faces of cells, of a stream function at their corners."""
    return N * torch.stack([psi.roll(-1, 1) - psi, psi - psi.roll(-1, 0)])


def main(iterations: int = 40, folder: Path = Path("out")) -> float:
    """Returns the mean square of what smoke and picture differ by, over that of the disc."""
    along = (2 * torch.arange(N, dtype=torch.float64) + 1) / N - 1
    y, x = torch.meshgrid(-along, along, indexing="ij")  # rows go downwards
    goal = heart(2.2 * x, 2.2 * y + 0.2)
    radius = 2 * (goal.mean() / torch.pi).sqrt()  # as much smoke: a flow makes none
    disc = torch.sigmoid(40 * (radius - x.hypot(y)))
    smoke = gs.Smoke((N, N), spacing=1 / N, dt=0.04, advection="maccormack", dtype=torch.float64)
    waves = torch.fft.fftfreq(N, 1 / N, dtype=torch.float64)
    smooth = (1 + (waves[:, None] ** 2 + waves**2) / 4) ** -2.0
    unknown = torch.zeros_like(goal, requires_grad=True)
    search = torch.optim.LBFGS([unknown], max_iter=iterations, max_eval=iterations, line_search_fn="strong_wolfe")

    def blown() -> torch.Tensor:
        psi = N * torch.fft.ifft2(torch.fft.fft2(unknown) * smooth).real  # so that first steps are seen
        return smoke.rollout(curl(psi), disc, frames=STEPS + 1).density[0]

    def loss() -> torch.Tensor:
        search.zero_grad()
        share = (blown()[-1] - goal).square().sum() / (disc - goal).square().sum()
        share.backward()
        return share

    search.step(loss)
    video = blown().detach()
    large = [p.repeat_interleave(4, 0).repeat_interleave(4, 1).expand(3, -1, -1) for p in (goal, *video[:: STEPS // 4])]
    image_io.write(Path(folder) / "smoke.png", *large)
    return float((video[-1] - goal).square().sum() / (disc - goal).square().sum())


if __name__ == "__main__":
    print(f"{main():.3f} of the first mean square is left")
