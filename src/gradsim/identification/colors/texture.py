"""Unknown textures: for given points on a body, its colors are a linear least-squares problem (variable projection).

A pixel p of frame t and channel c that shows the point X of the body has the color

    I = (g_tc + s_c · Y(n)) T_c(X) + o_tc + ε                T_c(X) = Σ_k a_k(X) T_kc

with the texture T by trilinear interpolation a_k on a cubic grid in the body's frame, which has no seams and no poles and takes any shape;
gain g and offset o of each frame and channel (exposure, white balance); and the light on the normal n by the spherical
harmonics Y of orders 1 and 2, which hold 98 % of any distant light on a matte surface (Ramamoorthi & Hanrahan 2001).
For given X, T is linear, and so are g, o, s for given T, so the minimum

    min Σ w (I − …)² + λ Σ_edges (T_k − T_l)² + (priors of g − 1, o, s)

is reached in a few Gauss–Newton steps, each by conjugate gradients with the sparse factors of T alone as preconditioner. Its
derivative by anything that moves X is that at fixed T, g, o, s (Golub & Pereyra 1973).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import splu

from gradsim.identification.colors.response import values_of

SMOOTH = 0.03  # λ: squared noise of a pixel over that of a step of color between neighboring nodes
LOOSE = 1e-4  # weight of a node that no pixel shows, toward the mean color
GAIN, OFFSET, LIGHT = 0.3, 0.1, 0.5  # prior standard deviations of g − 1, o and s
CORNERS = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])  # of a cell
NOISE = 0.02  # of a pixel, to which these priors are scaled
STEPS = 3  # Gauss–Newton steps of texture and exposure
ITERATIONS = 6  # of conjugate gradients in each
PROJECTED = 20  # of conjugate gradients for derivatives, at most
SHARE_OF_NODES = 0.5  # of the nodes near a surface, which lie in two layers, that colors of a surface determine
TOLERANCE = 1e-3  # relative size of what they leave


def harmonics(normals: np.ndarray) -> np.ndarray:
    """Real spherical harmonics (..., 8) of orders 1 and 2 of unit normals (..., 3), each of a size of about 1."""
    x, y, z = np.moveaxis(normals, -1, 0)
    return np.stack([x, y, z, x * y, y * z, x * z, x * x - y * y, 3 * z * z - 1], -1)


@dataclass(frozen=True, eq=False)
class Grid:
    """Cubic grid around a body, in its frame.

    Args:
        low: Corner of the least coordinates (3,) [m].
        cell: Edge of a cell [m].
        shape: Number of nodes along each axis.
    """

    low: np.ndarray
    cell: float
    shape: tuple[int, int, int]

    @classmethod
    def around(cls, low: np.ndarray, high: np.ndarray, cell: float) -> "Grid":
        """Grid of cells of an edge around a box with some cells to spare."""
        shape = np.ceil((high - low) / cell).astype(int) + 4
        return cls(low - 1.5 * cell, cell, tuple(shape.tolist()))

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
        color: (n, 3) in [0, 1].
        weight: At least 0 (n,).
        frame: Frame of each, counted from 0 (n,).
        light: `harmonics` of their normals (n, 8).
        frames: Number of frames.
        gamma: γ of the camera; colors are light (`response`).
    """

    color: np.ndarray
    weight: np.ndarray
    frame: np.ndarray
    light: np.ndarray
    frames: int
    gamma: float = 1.0


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


class Texture:
    """Texture of a body from pixels whose points on it are given, its exposure, and what is left.

    Args:
        grid: Where nodes are.
        points: Points on the body (n, 3) [m].
        pixels: The colors there.
        nodes: Colors of all nodes (nodes, 3) of a known texture; None: they are fitted.
        start: Exposure at which the steps start.
        steps: Number of steps.

    Attributes:
        nodes: Colors of the nodes that pixels show (used, 3).
        exposure: Gain, offset and light.
        residual: Colors less those of the model (n, 3).
    """

    def __init__(
        self,
        grid: Grid,
        points: np.ndarray,
        pixels: Pixels,
        nodes: np.ndarray | None = None,
        start: Exposure | None = None,
        steps: int = STEPS,
    ):
        self.grid, self.points, self.pixels, self.known = grid, points, pixels, nodes
        at, weights = grid.weights(points)
        self.used = np.zeros(int(np.prod(grid.shape)), bool)
        self.used[at.ravel()] = True
        self._number = np.cumsum(self.used) - 1
        ends = np.arange(len(points) + 1) * 8
        columns = self._number[at.ravel()]
        self._at = csr_array((weights.ravel(), columns, ends), (len(points), int(self.used.sum())))
        self._sums = self._at.T.tocsr()
        self._weight = pixels.weight[:, None]
        self._mean = np.average(pixels.color, axis=0, weights=np.maximum(pixels.weight, 1e-12))
        self.exposure = start or Exposure.neutral(pixels.frames)
        if nodes is None:
            target = pixels.color - self.exposure.offset[pixels.frame]
            target = target / np.maximum(self.exposure.factor(pixels), 0.2) - self._mean
            self.nodes = self._mean + self._solve(self._sums @ (self._weight * target))
        else:
            self.nodes = nodes[self.used]
        for _ in range(steps):
            self._step()
        self.residual = pixels.color - self.predicted

    @property
    def predicted(self) -> np.ndarray:
        """Colors of the model (n, 3)."""
        albedo = self._at @ self.nodes
        return albedo * self.exposure.factor(self.pixels) + self.exposure.offset[self.pixels.frame]

    @property
    def predicted_values(self) -> np.ndarray:
        """Values of the model in [0, 1], about (n, 3)."""
        return values_of(self.predicted, self.pixels.gamma)

    def shaded(self, nodes: np.ndarray) -> np.ndarray:
        """Change of the predicted colors (n, 3) by that of all nodes (nodes, 3)."""
        return (self._at @ nodes[self.used]) * self.exposure.factor(self.pixels)

    @property
    def cost(self) -> float:
        """Σ w r², and what priors and smoothness add."""
        cost = (self._weight * self.residual**2).sum()
        cost += (self._ridge[:, None] * np.square(self.exposure.stacked - self._neutral)).sum()
        if self.known is None:
            off = self.nodes - self._mean
            cost += (off * (self._stiffness @ off)).sum()
        return float(cost)

    def whitened(self, change: np.ndarray) -> np.ndarray:
        """A change of colors (n, 3, ...) times the root of the weights."""
        return change * np.sqrt(self.pixels.weight).reshape(-1, *[1] * (change.ndim - 1))

    def all_nodes(self) -> np.ndarray:
        """Colors of all nodes of the grid (nodes, 3); those that no pixel shows have the mean color."""
        if self.known is not None:
            return self.known
        whole = np.tile(self._mean, (len(self.used), 1))
        whole[self.used] = self.nodes
        return whole

    def slope(self, moved: np.ndarray) -> np.ndarray:
        """Derivative (n, 3) of the predicted colors at this texture by a motion of the points (n, 3)."""
        return np.einsum("ncd,nd->nc", self._gradient, moved) * self.exposure.factor(self.pixels)

    def project(self, columns: np.ndarray) -> np.ndarray:
        """Changes of colors (n, 3, m) less the part that texture and exposure can follow."""
        system = _Linearized(self)
        return columns - system.colors(*system.solve(*system.transposed(columns), PROJECTED))

    def _step(self) -> None:
        """A Gauss–Newton step of nodes and exposure."""
        system = _Linearized(self)
        nodes, exposure = system.transposed((self.pixels.color - self.predicted)[..., None])
        if self.known is None:
            nodes -= (self._stiffness @ (self.nodes - self._mean))[..., None]
        exposure -= (self._ridge[:, None] * (self.exposure.stacked - self._neutral))[..., None]
        nodes, exposure = system.solve(nodes, exposure, ITERATIONS)
        self.nodes = self.nodes + nodes[..., 0]
        self.exposure = Exposure.of(self.exposure.stacked + exposure[..., 0])

    @property
    def freedom(self) -> float:
        """Numbers that were fitted to the colors, in three channels: at most one for each node that is shown well."""
        amount = np.asarray(self._sums @ self.pixels.weight)
        nodes = 0.0 if self.known is not None else float((amount / (amount + SMOOTH)).sum() * SHARE_OF_NODES)
        return 3 * (nodes + len(self._ridge))

    @cached_property
    def _gradient(self) -> np.ndarray:
        return self.grid.gradient(self.points, self.all_nodes())

    def _solve(self, right: np.ndarray) -> np.ndarray:
        flat = np.asfortranarray(right.reshape(len(right), -1))
        return self._factor.solve(flat).reshape(right.shape)

    @cached_property
    def _factor(self):
        """Factors of the normal equations of the nodes at gain 1."""
        matrix = self._sums @ diags_array(self.pixels.weight) @ self._at + self._stiffness
        options = {"SymmetricMode": True}
        return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    @cached_property
    def _stiffness(self) -> csr_array:
        """Matrix of smoothness between neighboring nodes, and of the pull of nodes toward the mean color."""
        number = np.where(self.used, self._number, -1).reshape(self.grid.shape)
        pairs = []
        for axis in range(3):
            along = np.moveaxis(number, axis, 0)
            a, b = along[:-1].ravel(), along[1:].ravel()
            both = (a >= 0) & (b >= 0)
            pairs.append((a[both], b[both]))
        a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
        ones, count = np.full(len(a), SMOOTH), int(self.used.sum())
        places = np.concatenate([a, b, a, b]), np.concatenate([a, b, b, a])
        laplacian = coo_array((np.concatenate([ones, ones, -ones, -ones]), places), (count, count)).tocsr()
        return laplacian + LOOSE * diags_array(np.ones(count))

    @cached_property
    def _ridge(self) -> np.ndarray:
        """Weights of the priors of exposure and light (2 frames + 8,)."""
        frames = self.pixels.frames
        return NOISE**2 * np.repeat([GAIN**-2, OFFSET**-2, LIGHT**-2], [frames, frames, 8])

    @cached_property
    def _neutral(self) -> np.ndarray:
        return Exposure.neutral(self.pixels.frames).stacked


class _Linearized:
    """Normal equations of small changes of nodes (used, 3, m) and exposure (2 frames + 8, 3, m) at a texture.

    Args:
        texture: The texture; of a known one the nodes stay.
    """

    def __init__(self, texture: Texture):
        self.texture, pixels = texture, texture.pixels
        self.pixels, self.albedo = pixels, texture._at @ texture.nodes
        self.factor = texture.exposure.factor(pixels)[..., None]
        ends = np.arange(len(self.albedo) + 1)
        self.by_frame = csr_array((np.ones(len(self.albedo)), pixels.frame, ends), (len(self.albedo), pixels.frames))
        self.by_frame = self.by_frame.T.tocsr()
        self.light = np.ascontiguousarray(pixels.light.T)
        self.inverse = np.stack([self._exposure_inverse(self.albedo[:, c]) for c in range(3)])

    def colors(self, nodes: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """Changes of colors (n, 3, m)."""
        frames, frame = self.pixels.frames, self.pixels.frame
        factor = exposure[:frames][frame] + _apply(self.pixels.light, exposure[2 * frames :])
        changes = factor * self.albedo[..., None] + exposure[frames : 2 * frames][frame]
        return changes if self.texture.known is not None else changes + self.factor * _apply(self.texture._at, nodes)

    def transposed(self, colors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted sums of changes of colors (n, 3, m) by nodes and by exposure."""
        weighted = self.pixels.weight[:, None, None] * colors
        lit = self.albedo[..., None] * weighted
        exposure = [_apply(self.by_frame, lit), _apply(self.by_frame, weighted), _apply(self.light, lit)]
        if self.texture.known is None:
            nodes = _apply(self.texture._sums, self.factor * weighted)
        else:
            nodes = np.zeros((len(self.texture.nodes), *colors.shape[1:]))
        return nodes, np.concatenate(exposure)

    def solve(self, nodes: np.ndarray, exposure: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
        """Changes of nodes and exposure whose normal equations have these right sides, by conjugate gradients."""
        x = np.zeros_like(nodes), np.zeros_like(exposure)
        r = nodes, exposure
        z = self._preconditioned(*r)
        d, rho = z, _dot(r, z)
        first = np.maximum(rho, 1e-300)
        for _ in range(iterations):
            y = self._matrix(*d)
            step = rho / np.maximum(_dot(d, y), 1e-300)
            x = tuple(a + step * b for a, b in zip(x, d, strict=True))
            r = tuple(a - step * b for a, b in zip(r, y, strict=True))
            z = self._preconditioned(*r)
            new = _dot(r, z)
            if (new <= TOLERANCE**2 * first).all():
                break
            share = new / np.maximum(rho, 1e-300)
            d, rho = tuple(a + share * b for a, b in zip(z, d, strict=True)), new
        return x[0], x[1]

    def _matrix(self, nodes: np.ndarray, exposure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_nodes, by_exposure = self.transposed(self.colors(nodes, exposure))
        if self.texture.known is None:
            by_nodes = by_nodes + _apply(self.texture._stiffness, nodes)
        return by_nodes, by_exposure + self.texture._ridge[:, None, None] * exposure

    def _preconditioned(self, nodes: np.ndarray, exposure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        solved = self.texture._solve(nodes) if self.texture.known is None else nodes
        return solved, np.einsum("cij,jcm->icm", self.inverse, exposure)

    def _exposure_inverse(self, albedo: np.ndarray) -> np.ndarray:
        """Inverse of the normal equations of one channel's exposure."""
        pixels, frames = self.pixels, self.pixels.frames
        k, w = np.arange(frames), pixels.weight
        matrix = np.zeros((2 * frames + 8, 2 * frames + 8))
        sums = self.by_frame @ (w[:, None] * np.stack([albedo * albedo, albedo, np.ones_like(albedo)], 1))
        matrix[k, k], matrix[k + frames, k + frames] = sums[:, 0], sums[:, 2]
        matrix[k, k + frames] = matrix[k + frames, k] = sums[:, 1]
        lit = pixels.light * albedo[:, None] * w[:, None]
        cross = np.concatenate([self.by_frame @ (lit * albedo[:, None]), self.by_frame @ lit])
        matrix[: 2 * frames, 2 * frames :], matrix[2 * frames :, : 2 * frames] = cross, cross.T
        matrix[2 * frames :, 2 * frames :] = (pixels.light * albedo[:, None]).T @ lit
        return np.linalg.inv(matrix + np.diag(self.texture._ridge))


def _apply(matrix, columns: np.ndarray) -> np.ndarray:
    """Matrix times (n, ...)."""
    return (matrix @ columns.reshape(len(columns), -1)).reshape(-1, *columns.shape[1:])


def _dot(a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> np.ndarray:
    """Inner products (3, m) of stacked vectors."""
    return sum((x * y).sum(0) for x, y in zip(a, b, strict=True))  # pyright: ignore[reportReturnType]
