"""Simulated refits: the scatter of answers over noise, where contact kinks the likelihood and no derivative tells it.

Films are simulated at samples of the unknowns, noise is drawn, and each is fitted by Levenberg–Marquardt from the truth and from
starts about it that are spread as the linear model says. It is a local figure: valleys further away do not count.
"""

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks
from gradsim.identification.solvers.levenberg_marquardt import Population, descend
from gradsim.planning.information import Recording

STARTS = 3  # of each refit
ITERATIONS = 12


def is_possible(film: Recording) -> bool:
    """True if the film is of one mask by one camera."""
    return isinstance(film.problem.observation, Masks)


def refit_errors(film: Recording, places: Tensor, C: Tensor, repeats: int, seed: int) -> Tensor:
    """Errors (places, repeats, unknowns) of refits in solver coordinates.

    Args:
        film: Of one mask by one camera (`is_possible`).
        places: True values (places, unknowns).
        C: Covariance of the linear model at each (places, unknowns, unknowns).
        repeats: Films of each, with noise of their own.
        seed: Of noise and starts.
    """
    problem, rng, errors = film.problem, np.random.default_rng(seed), []
    data = problem.observation
    assert isinstance(data, Masks)  # `is_possible`
    with torch.no_grad():
        for u, spread in zip(places, C, strict=True):
            image, L = data.image(film.trajectory(u)), _root(spread)
            for _ in range(repeats):
                noisy = image + data.sigma * torch.tensor(rng.standard_normal(tuple(image.shape)))
                starts = u + torch.tensor(rng.standard_normal((STARTS, len(u)))) @ L.T
                starts[0] = u
                starts = starts.clamp(problem.space.low, problem.space.high)
                refit = problem.with_observation(data.replaced(masks=noisy))
                ends, _ = descend(refit, Population.at(starts), problem.frames, "pixels", ITERATIONS)
                errors.append(ends.u[ends.cost.argmin()] - u)
    return torch.stack(errors).unflatten(0, (len(places), repeats))


def _root(C: Tensor) -> Tensor:
    """L with L Lᵀ = C (n, n), which may be singular: unknowns that only show together are fully correlated."""
    scale = C.diagonal().clamp(min=1e-300).sqrt()
    eigenvalues, axes = torch.linalg.eigh(C / scale[:, None] / scale)
    return scale[:, None] * axes * eigenvalues.clamp(min=0).sqrt()
