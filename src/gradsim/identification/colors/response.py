"""Colors of a camera whose values are light to the power of 1/γ, in light that is scaled to the values in the middle.

    y = v^γ / (γ m^(γ−1)),    weight (m/v)^(2(γ−1)),    ∂y/∂γ = y (log(v/m) − 1/γ)          m = 1/2

dy/dv is 1 at v = m, so the noise of y there is that of v; elsewhere it is the weight's, of the mean of the channels. Means over pixels, gains, offsets and
shading are those of light.
"""

import numpy as np

MIDDLE = 0.5  # m
DARKEST = 0.08  # value below which the noise of light is that there


def light_of(values: np.ndarray, gamma: float) -> np.ndarray:
    """y of values in [0, 1]; values themselves where γ is 1."""
    return values if gamma == 1 else np.maximum(values, 0.0) ** gamma / (gamma * MIDDLE ** (gamma - 1))


def values_of(light: np.ndarray, gamma: float) -> np.ndarray:
    """Inverse of `light_of`."""
    return light if gamma == 1 else np.maximum(light * gamma * MIDDLE ** (gamma - 1), 0.0) ** (1 / gamma)


def slope_of_light(values: np.ndarray, gamma: float) -> np.ndarray:
    """∂y/∂γ."""
    safe = np.maximum(values, 1e-6)
    return light_of(safe, gamma) * (np.log(safe / MIDDLE) - 1 / gamma)


def log_of_root_weight(values: np.ndarray) -> np.ndarray:
    """Derivative (n,) by γ of the logarithm of the root of the weight of pixels (n, 3)."""
    return np.log(MIDDLE / np.maximum(values.mean(-1), DARKEST))


def weight_of(values: np.ndarray, gamma: float) -> np.ndarray:
    """Weight (n,) of the light of pixels (n, 3)."""
    return np.exp(2 * (gamma - 1) * log_of_root_weight(values))


def mean_of_blocks(values: np.ndarray, factor: int, gamma: float) -> np.ndarray:
    """Values (frames, height, width, 3) of blocks of pixels, whose light is the mean."""
    count, height, width, channels = values.shape
    blocks = light_of(values, gamma).reshape(count, height // factor, factor, width // factor, factor, channels)
    return values_of(blocks.mean((2, 4)), gamma)


def channels_of(weights: np.ndarray) -> np.ndarray:
    """Channels by red, green and blue (3, 3) whose squares, of equal weight, have a metric (3, 3), in channels that have the mean weight of red, green and blue."""
    values, axes = np.linalg.eigh(weights)
    axes = axes * np.where(axes.sum(0) < 0, -1.0, 1.0)
    return np.sqrt(3 * values[::-1] / values.sum())[:, None] * axes.T[::-1]
