"""Error bars from blocks: right where pixels are independent, and where they are not."""

import math

import numpy as np
import pytest
import torch
from tolerances import SOLVED, assert_near

from gradsim_reproduction.real.beam_checks import Clusters

FRAMES, PIXELS, NOTHING = 64, 12, torch.zeros(2, 2, dtype=torch.float64)


def linear(rng, frames=FRAMES):
    """Derivatives (frames, pixels, 2) of a linear model."""
    return torch.tensor(rng.standard_normal((frames, PIXELS, 2)))


def fitted(jacobian, errors):
    """Residuals at the least-squares answer, and the answer."""
    J, e = jacobian.flatten(0, 1), errors.flatten()
    answer = torch.linalg.lstsq(J, e).solution
    return (J @ answer - e).view(errors.shape), answer


def test_one_step_jackknife_is_the_jackknife_of_a_linear_model():
    rng = np.random.default_rng(0)
    J, errors = linear(rng), torch.tensor(rng.standard_normal((FRAMES, PIXELS)))
    residuals, _ = fitted(J, errors)
    clusters = Clusters.at(residuals, J, NOTHING)
    assert clusters.block == 4
    left_out = torch.stack(
        [
            fitted(J[keep], errors[keep])[1]
            for g in torch.arange(FRAMES).split(4)
            for keep in [torch.tensor([k for k in range(FRAMES) if k not in g])]
        ]
    )
    moves = left_out - left_out.mean(0)
    assert_near(clusters.jackknife(), 15 / 16 * moves.T @ moves, SOLVED)


@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_spread_of_answers_is_that_of_the_blocks(shared):
    """Errors that all pixels of a frame share make the answer worse than independent pixels would; blocks see it."""
    rng = np.random.default_rng(1)
    J = linear(rng) + torch.tensor(rng.standard_normal((FRAMES, 1, 2)))
    answers, blocks, resampled = [], [], []
    for _ in range(60):
        own, common = (torch.tensor(rng.standard_normal((FRAMES, n))) for n in (PIXELS, 1))
        residuals, answer = fitted(J, own + shared * common)
        clusters = Clusters.at(residuals, J, NOTHING)
        answers.append(answer)
        blocks.append(clusters.jackknife().diagonal())
        resampled.append(clusters.bootstrap(rng, 60) ** 2)
    spread = torch.stack(answers).var(0)
    plain = torch.linalg.inv(torch.einsum("fpi,fpj->ij", J, J)).diagonal() * (1 + shared**2)
    # 60 variances of 60 answers: 18 % each; the jackknife of 16 blocks is high by some 10 %
    torch.testing.assert_close(torch.stack(blocks).mean(0), spread, rtol=0.5, atol=0)
    torch.testing.assert_close(torch.stack(resampled).mean(0), spread, rtol=0.5, atol=0)
    assert bool((spread > 2 * plain).all()) == bool(shared)


def test_prior_stands_whatever_block_is_left_out():
    """An unknown that no frame shows keeps the error bar 0 of its prior's answer, and no singular matrix appears."""
    rng = np.random.default_rng(2)
    J = linear(rng)
    J[..., 1] = 0
    residuals, _ = fitted(J[..., :1], torch.tensor(rng.standard_normal((FRAMES, PIXELS))))
    covariance = Clusters.at(residuals, J, torch.diag(torch.tensor([0.0, 4.0], dtype=torch.float64))).jackknife()
    assert covariance[1, 1] == 0
    assert math.sqrt(covariance[0, 0]) > 0
