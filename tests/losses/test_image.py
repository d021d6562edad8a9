"""Each loss against its formula in plain NumPy, written with loops."""

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, near

from gradsim.losses import L1, LOSSES, MSE, IoU, Robust

RNG = np.random.default_rng(7)
A, T = RNG.random((6, 9)), RNG.random((6, 9))
A[:2], T[4:] = 0, 0  # bodies that overlap in part


def loss(name: str) -> float:
    return LOSSES[name](torch.tensor(A)[None], torch.tensor(T)).item()


def smooth(x: np.ndarray) -> np.ndarray:
    """|x|, rounded below one grey level."""
    return np.sqrt(x**2 + 255.0**-2) - 1 / 255


def test_mse_is_the_mean_square():
    assert loss("mse") == pytest.approx(((A - T) ** 2).mean(), rel=1e-13)


def test_l1_is_the_mean_absolute_value_but_for_its_rounding():
    assert loss("l1") == near(smooth(A - T).mean(), ROUNDING)
    exact = L1(rounding=1e-9)(torch.tensor(A)[None], torch.tensor(T)).item()
    assert exact == pytest.approx(np.abs(A - T).mean(), rel=1e-7)


def test_iou_is_one_minus_the_ratio_of_minimum_and_maximum():
    """The rounding of |·| lowers both sums by at most 1/255 a pixel."""
    assert loss("iou") == pytest.approx(1 - np.minimum(A, T).sum() / np.maximum(A, T).sum(), abs=54 / 255 / T.sum())
    both = (A + T).sum() / 2 + smooth(A - T).sum() / 2
    assert loss("iou") == near(smooth(A - T).sum() / (both + 1e-3), ROUNDING)


def test_iou_of_rectangles_is_that_of_their_areas():
    """Two 4 × 6 rectangles that share 4 × 2: 1 − 8/40."""
    image, target = torch.zeros(2, 10, 20, dtype=torch.float64)
    image[3:7, 4:10], target[3:7, 8:14] = 1, 1
    assert IoU()(image[None], target).item() == pytest.approx(1 - 8 / 40, rel=2 / 255)


def test_pyramid_is_the_mean_square_of_masses_at_all_levels():
    """A pixel gives 3/4 of its mass to the pixel of the next level that it lies in, and 1/4 to the nearer neighbour."""

    def halved(x: np.ndarray) -> np.ndarray:
        count = (len(x) + 1) // 2
        out = np.zeros((count, x.shape[1]))
        for i, row in enumerate(x):
            near = i // 2 - 1 if i % 2 == 0 else i // 2 + 1
            out[i // 2] += 0.75 * row
            out[min(max(near, 0), count - 1)] += 0.25 * row
        return out

    level, squares = A - T, []
    for shape in ((6, 9), (3, 5), (2, 3), (1, 2), (1, 1)):
        assert level.shape == shape
        squares.append(level.ravel() ** 2)
        level = halved(halved(level).T).T
    assert loss("pyramid") == near(np.concatenate(squares).mean(), ROUNDING)
    assert squares[-1].item() == near((A - T).sum() ** 2, ROUNDING)


def test_cdf_is_the_mean_square_of_the_difference_of_cumulative_shares():
    share = lambda image: np.concatenate([np.cumsum(image.sum(1)), np.cumsum(image.sum(0))]) / (image.sum() + 1e-3)
    assert loss("cdf") == near(((share(A) - share(T)) ** 2).mean(), ROUNDING)


def test_moments_are_those_of_a_weighted_cloud_of_pixels():
    places = np.array([((j + 0.5) / 9 - 0.5, (i + 0.5) / 6 - 0.5) for i in range(6) for j in range(9)])

    def of(image: np.ndarray) -> np.ndarray:
        centre, cov = np.average(places, 0, image.ravel()), np.cov(places.T, bias=True, aweights=image.ravel())
        return np.array([*centre, cov[0, 0], cov[0, 1], cov[1, 1]])

    assert loss("moments") == pytest.approx(((of(A) - of(T)) ** 2).mean(), rel=1e-3)  # 1e-3 pixel of mass is added


def test_centroid_and_size_are_the_centroid_in_widths_and_half_the_logarithm_of_the_mass():
    def of(image: np.ndarray) -> np.ndarray:
        centre = np.array([(np.arange(9) + 0.5) @ image.sum(0), (np.arange(6) + 0.5) @ image.sum(1)]) / image.sum()
        return np.array([*centre / 9, np.log(image.sum()) / 2])

    assert loss("whereabouts") == pytest.approx(((of(A) - of(T)) ** 2).mean(), rel=1e-3)  # 1e-3 pixel of mass is added


def test_centroid_and_size_weigh_steps_across_and_along_the_line_of_sight_equally():
    """A square of a × a px at D = 1 and a focal length of one width; steps of 5 % count to second order, about 10 %."""
    n, a = 256, 40

    def square(step: tuple[float, float]) -> torch.Tensor:
        across, along = step
        centre, half = n / 2 + n * across / (1 + along), a / (1 + along) / 2
        inside = [(min(k + 1, centre + half) - max(k, centre - half)) for k in range(n)]
        rows = [(min(k + 1, n / 2 + half) - max(k, n / 2 - half)) for k in range(n)]
        return torch.outer(*(torch.tensor(x, dtype=torch.float64).clamp(0, 1) for x in (rows, inside)))

    losses = [LOSSES["whereabouts"](square(s)[None], square((0, 0))).item() for s in ((0.05, 0), (0, 0.05), (0, -0.05))]
    assert losses == pytest.approx([0.05**2 / 3] * 3, rel=0.11)


def test_distance_weighs_pixels_by_the_way_to_the_nearest_one_on_the_other_side():
    total = {True: 0.0, False: 0.0}
    for i in range(6):
        for j in range(9):
            inside = bool(T[i, j] > 0.5)
            others = [(p, q) for p in range(6) for q in range(9) if (T[p, q] > 0.5) != inside]
            total[inside] += min(np.hypot(i - p, j - q) for p, q in others) * smooth(A - T)[i, j]
    assert loss("distance") == near(sum(smooth(np.array(list(total.values())))) / 54, ROUNDING)


def test_robust_residuals_follow_rho():
    robust = Robust(MSE(), 0.2, "cauchy")
    k, scale = robust.rho.bend, robust.rho.scale
    expected = scale * 0.2**2 * k**2 * np.log1p(((A - T) / 0.2 / k) ** 2)
    assert robust(torch.tensor(A)[None], torch.tensor(T)).item() == near(expected.mean(), ROUNDING)
