"""Parts of textures: the grid of their nodes, the pixels that show them, and exposures."""

from dataclasses import dataclass, field, replace

import numpy as np

from gradsim.identification.colors.response import values_of

CORNERS = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])  # of a cell
BETWEEN = 0.4  # cells: distance of points that cover a surface, and more


@dataclass(frozen=True, eq=False)
class Grid:
    """Cubic grid around a body, in its frame.

    Args:
        low: Corner of the least coordinates (3,) [m].
        cell: Edge of a cell [m].
        shape: Number of nodes along each axis.
        surface: Nodes of the cells that hold the surface (nodes,), bool: with them, what smoothness costs does not hang on which of them pixels
            show. None: unknown.
    """

    low: np.ndarray
    cell: float
    shape: tuple[int, int, int]
    surface: np.ndarray | None = None

    @classmethod
    def around(cls, low: np.ndarray, high: np.ndarray, cell: float) -> "Grid":
        """Grid of cells of an edge around a box with some cells to spare."""
        shape = np.ceil((high - low) / cell).astype(int) + 4
        return cls(low - 1.5 * cell, cell, tuple(shape.tolist()))

    def with_surface(self, points: np.ndarray) -> "Grid":
        """The same around a surface that points (n, 3) cover."""
        surface = np.zeros(int(np.prod(self.shape)), bool)
        for corner in CORNERS - 0.5:  # cells that lie between the points are near one of them
            surface[self.weights(points + BETWEEN * self.cell * corner)[0].ravel()] = True
        return replace(self, surface=surface)

    def weights(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes (n, 8) and weights (n, 8) of trilinear interpolation at points (n, 3); outside, of the nearest cell."""
        first, share = self._place(points)
        nodes = (first[:, None] + CORNERS) @ self._stride
        parts = np.where(CORNERS[None] == 1, share[:, None], 1 - share[:, None])
        return nodes, parts.prod(-1)

    def gradient(self, points: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Derivative (n, channels, 3) [1/m] of interpolated node values (nodes, channels) by the points (n, 3)."""
        first, share = self._place(points)
        at = values[(first[:, None] + CORNERS) @ self._stride]
        parts = np.where(CORNERS[None] == 1, share[:, None], 1 - share[:, None])
        signs, slopes = 2.0 * CORNERS - 1, []
        for axis in range(3):
            others = parts[..., axis - 1] * parts[..., axis - 2]
            slopes.append(np.einsum("nk,k,nkc->nc", others, signs[:, axis], at) / self.cell)
        return np.stack(slopes, -1)

    def interpolate(self, points: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values (n, channels) at points (n, 3)."""
        nodes, weights = self.weights(points)
        return np.einsum("nk,nkc->nc", weights, values[nodes])

    @property
    def _stride(self) -> np.ndarray:
        return np.array([self.shape[1] * self.shape[2], self.shape[2], 1])

    def _place(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = (points - self.low) / self.cell
        first = np.clip(np.floor(place).astype(int), 0, np.array(self.shape) - 2)
        return first, np.clip(place - first, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Pixels:
    """Pixels that show a body.

    Args:
        color: Channels (n, 3).
        weight: At least 0 (n,).
        frame: Frame of each, counted from 0 (n,).
        light: `harmonics` of their normals (n, 8).
        frames: Number of frames.
        gamma: γ of the camera; colors are light (`response`).
        channels: Channels by red, green and blue in [0, 1] (3, 3).
    """

    color: np.ndarray
    weight: np.ndarray
    frame: np.ndarray
    light: np.ndarray
    frames: int
    gamma: float = 1.0
    channels: np.ndarray = field(default_factory=lambda: np.eye(3))

    def values(self, color: np.ndarray) -> np.ndarray:
        """Red, green and blue as in the image, in [0, 1] about, of channels (..., 3)."""
        return values_of(color @ np.linalg.inv(self.channels).T, self.gamma)


@dataclass(frozen=True, eq=False)
class Exposure:
    """Gain and offset of each frame, and the light.

    Args:
        gain: (frames, 3).
        offset: (frames, 3).
        light: Coefficients of the harmonics (8, 3).
    """

    gain: np.ndarray
    offset: np.ndarray
    light: np.ndarray

    @classmethod
    def neutral(cls, frames: int) -> "Exposure":
        """Gain 1 and no light from anywhere else."""
        return cls(np.ones((frames, 3)), np.zeros((frames, 3)), np.zeros((8, 3)))

    @classmethod
    def of(cls, stacked: np.ndarray) -> "Exposure":
        """From `stacked`."""
        frames = (len(stacked) - 8) // 2
        return cls(stacked[:frames], stacked[frames : 2 * frames], stacked[2 * frames :])

    @property
    def stacked(self) -> np.ndarray:
        """Gains, offsets and light (2 frames + 8, 3)."""
        return np.concatenate([self.gain, self.offset, self.light])

    def first(self, frames: int) -> "Exposure":
        """That of the first frames."""
        return Exposure(self.gain[:frames], self.offset[:frames], self.light)

    def factor(self, pixels: Pixels) -> np.ndarray:
        """Factor of the texture at each pixel (n, 3)."""
        return self.gain[pixels.frame] + pixels.light @ self.light
