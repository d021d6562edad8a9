"""Every k-th frame of a film, against the same film at a k-th of the rate."""

from itertools import pairwise

import pytest
import torch
from fit_cases import THROW, THROW_TRUTH, throw

from gradsim.identification import synthetic
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.thinned import EveryNth
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import parameter_values
from gradsim.identification.solvers.multistart import thinned
from gradsim.identification.unknowns import Space
from gradsim.physics.model import Model
from gradsim.render.windows import Windows

STRIDE, SPARSE = 3, 5  # frames of the sparse film


def problem(frames: int, fps: float, substeps: int) -> Problem:
    scene = throw()
    timing = scene.timing.model_copy(update={"frames": frames, "fps": fps, "substeps": substeps})
    scene = scene.model_copy(update={"timing": timing})
    model = Model(scene)
    with torch.no_grad():
        trajectory = model.rollout(parameter_values(scene, THROW_TRUTH))
    image = synthetic.float_masks(scene, trajectory).masks
    image = image + 0.01 * torch.arange(image.numel()).double().sin().reshape(image.shape)
    weight = torch.ones(frames, 1, 1)
    weight[frames // 2] = 0.25
    masks = Masks(image, 0.02, synthetic.float_masks(scene, trajectory).silhouettes, weight)
    return Problem(model, masks, Space(scene, THROW))


@pytest.fixture(scope="module")
def pair() -> tuple[Problem, Problem]:
    """A film of which every third frame is compared, and its every third frame at a third of the rate, with as many steps."""
    dense, sparse = problem(STRIDE * (SPARSE - 1) + 1, 60.0, 8), problem(SPARSE, 20.0, 8 * STRIDE)
    masks = dense.observation
    assert isinstance(masks, Masks)
    image, weight = masks.masks[::STRIDE], masks.weight[::STRIDE, :1, :1]
    same = Masks(image, masks.sigma, masks.silhouettes, weight)
    return dense.with_observation(EveryNth(masks, STRIDE)), sparse.with_observation(same)


def places(problem: Problem) -> torch.Tensor:
    middle = (problem.space.low + problem.space.high) / 2
    return torch.stack([middle, middle + 0.1 * (problem.space.high - middle)])


@pytest.mark.parametrize("residual", ["pixels", "cdf"])
@pytest.mark.parametrize("count", [SPARSE, 2])
def test_costs_and_derivatives_are_those_of_the_sparse_film(pair, residual, count):
    """The frames so far are those of the sparse one, and up to two more, which are not compared."""
    dense, sparse = pair
    u = places(sparse)
    for more in range(STRIDE if count < SPARSE else 1):
        frames = STRIDE * (count - 1) + 1 + more
        torch.testing.assert_close(dense.cost(u, frames, residual), sparse.cost(u, count, residual), rtol=1e-9, atol=0)
        for own, expected in zip(
            dense.linearize(u, frames, residual), sparse.linearize(u, count, residual), strict=True
        ):
            torch.testing.assert_close(own, expected, rtol=1e-7, atol=1e-6 * expected.abs().max().item())


def test_residuals_and_noise_are_those_of_the_sparse_film(pair):
    dense, sparse = pair
    u = places(sparse)
    torch.testing.assert_close(dense.residuals(u), sparse.residuals(u), rtol=1e-9, atol=1e-7)
    assert dense.observation.noise_floor(dense.frames) == sparse.observation.noise_floor(SPARSE)
    (own,), (expected,) = (list(p.jacobian(u[:1], p.frames)) for p in pair)
    torch.testing.assert_close(own[1], expected[1], rtol=1e-7, atol=1e-6 * expected[1].abs().max().item())


@pytest.mark.parametrize("ends", [None, [2, 5, 9, 13]])
def test_stretches_of_a_clip_add_up(pair, ends):
    """Wherever they end, each has the frames that are compared, if any."""
    dense, sparse = pair
    u = places(dense)
    assert dense.ends == [1, 4, 7, 10, 13] and sparse.ends == [1, 2, 3, 4, 5]
    stretches = [dense.stretch(*between) for between in pairwise([0, *(ends or dense.ends)])]
    parts = dense.costs(u, stretches)
    if ends is None:
        apart = sparse.costs(u, [sparse.stretch(*between) for between in pairwise([0, *sparse.ends])])
        for part, other in zip(parts, apart, strict=True):
            torch.testing.assert_close(part, other, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(sum(parts), dense.cost(u, dense.frames), rtol=1e-12, atol=1e-12)
    cost, A, g = (sum(part) for part in zip(*dense.linearizations(u, stretches), strict=True))
    for together, whole in zip((cost, A, g), dense.linearize(u, dense.frames), strict=True):
        torch.testing.assert_close(together, whole, rtol=1e-9, atol=1e-9 * whole.abs().max().item())


def test_films_with_frames_that_do_not_count_are_not_thinned():
    """Those that would be left may be these: a film at half of the rate, out of step by a frame."""
    clip = problem(STRIDE * (SPARSE - 1) + 1, 240.0, 2)
    masks = clip.observation
    assert isinstance(masks, Masks)
    assert isinstance(thinned(clip).observation, EveryNth)
    weight = masks.weight[:, :1, :1].clone()
    weight[2::2] = 0.0
    half = clip.with_observation(Masks(masks.masks, masks.sigma, masks.silhouettes, weight))
    assert thinned(half) is half


def test_windows_are_those_of_the_frames_that_are_compared():
    corner = torch.arange(14).reshape(7, 2)
    assert torch.equal(Windows(corner, (4, 4), (32, 32)).stride_frames(3).corner, corner[[0, 3, 6]])
