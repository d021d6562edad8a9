"""Memory of noise in time, by maximum likelihood, against dense covariances and series with a memory that is known."""

import numpy as np
import pytest
import torch

from gradsim.numerics import memory
from gradsim.numerics.memory import Memory, lasting_memory


def drawn(truth: Memory, instants: int, quantities: int, seed: int) -> torch.Tensor:
    """Series of normal noise (instants, quantities) with unlike variances."""
    lag = (torch.arange(instants)[:, None] - torch.arange(instants)).abs()
    root = torch.linalg.cholesky(truth.at(lag))
    noise = torch.tensor(np.random.default_rng(seed).standard_normal((instants, quantities)))
    return root @ noise * torch.linspace(0.5, 2, quantities).double()


def dense_misfit(series: torch.Tensor, one: Memory) -> float:
    measured = series.isfinite().all(1).nonzero()[:, 0]
    covariance = one.at((measured[:, None] - measured).abs())
    root = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(root, series[measured], upper=False)
    logarithm = 2 * root.diagonal().log().sum() * series.shape[1]
    return float(logarithm + len(measured) * white.square().mean(0).log().sum())


def test_the_likelihood_is_that_of_the_covariance():
    """Also where instants are missing."""
    series = drawn(Memory(0.4, 0.95, 0.3), 40, 3, 0)
    series[[5, 6, 7, 20]] = torch.nan
    memories = [Memory(0.4, 0.95, 0.3), Memory(0.0, 0.9, 0.6), Memory(0.7)]
    arguments = (np.array([getattr(m, name) for m in memories]) for name in ("fast", "slow", "share"))
    misfit = memory._misfit([series.numpy()], *arguments)
    assert misfit == pytest.approx([dense_misfit(series, m) for m in memories], rel=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_part_that_lasts_is_found_in_size_and_time(seed):
    """The variance of means follows from it to a factor of 2; by the next instant alone it would be 3 times too small."""
    truth = Memory(0.4, np.exp(-1 / 32).item(), 0.5)
    likeliest = lasting_memory([drawn(truth, 150, 13, seed)])
    assert likeliest is not None and 0.3 <= likeliest.share <= 0.8
    assert 0.5 < likeliest.inflation(150) / truth.inflation(150) < 2
    next_instant = Memory(float(truth.at(torch.tensor(1))))
    assert next_instant.inflation(150) < truth.inflation(150) / 2


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_series_of_one_part_have_no_other(correlation):
    """None of 20 films of 30 frames and two bodies, one of which is hidden in some."""
    for seed in range(20):
        series = [drawn(Memory(correlation), 30, 13, 2 * seed + k) for k in (0, 1)]
        series[1][10:14] = torch.nan
        assert lasting_memory(series) is None


@pytest.mark.parametrize("correlation", [0.3, 0.85])
def test_long_series_of_one_part_have_no_other(correlation):
    """Whatever their correlation, though hundreds of instants tell it to a hundredth; a quantity that is 0 throughout tells nothing."""
    for seed in range(8):
        series = drawn(Memory(correlation), 300, 7, seed)
        series[:, 3] = 0.0
        assert lasting_memory([series]) is None


def test_nothing_measured_has_no_memory():
    assert lasting_memory([torch.zeros(4, 13).double()]) is None
    assert lasting_memory([torch.full((4, 13), torch.nan).double()]) is None


def test_inflation_is_the_variance_of_a_mean():
    one = Memory(0.3, 0.9, 0.4)
    lag = (torch.arange(25)[:, None] - torch.arange(25)).abs()
    assert one.inflation(25) == pytest.approx(25 * float(one.at(lag).mean()), rel=1e-12)
    assert Memory(0.5).inflation(10) == pytest.approx(3)
