"""Unknown textures: for given points on a body, its colors are a linear least-squares problem (variable projection).

A pixel p of frame t and channel c that shows the point X of the body has the color

    I = (g_tc + s_c · Y(n)) T_c(X) + o_tc + ε                T_c(X) = Σ_k a_k(X) T_kc

with the texture T by trilinear interpolation a_k on a cubic grid in the body's frame, which has no seams and no poles and takes any shape;
gain g and offset o of each frame and channel (exposure, white balance); and the light on the normal n by the spherical
harmonics Y of orders 1 and 2, which hold 98 % of any distant light on a matte surface (Ramamoorthi & Hanrahan 2001).
For given X, T is linear, and so are g, o, s for given T, so the minimum

    min Σ w (I − …)² + λ Σ_edges (T_k − T_l)² + (priors of g − 1, o, s)

is reached in a few Gauss–Newton steps (`texture_equations`). Its derivative by anything that moves X is that at fixed T, g, o, s (Golub & Pereyra 1973).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.linalg import splu

from gradsim.identification.colors.texture_equations import Equations, Profiled
from gradsim.identification.colors.texture_parts import Exposure, Grid, Pixels

SMOOTH = 0.03  # λ: squared noise of a pixel over that of a step of color between neighboring nodes
LOOSE = 1e-6  # weight of a node that no pixel shows, toward the mean color
UNIT = 0.1  # weight of a pixel by which the mean factor is 1: smoothness alone would let it grow
GAIN, OFFSET, LIGHT = 0.3, 0.1, 0.5  # prior standard deviations of g − 1, o and s
NOISE = 0.02  # of a pixel, to which these priors are scaled
STEPS = 3  # Gauss–Newton steps of texture and exposure
ITERATIONS = 6  # of conjugate gradients in each
PROJECTED = 20  # of conjugate gradients for derivatives, at most
PROFILED = 2  # steps of an exposure whose normal equations without the texture are known
CONVERGED = 8  # of conjugate gradients in each
SHARES = (1.0, 0.25)  # of a step that are tried
REFINED = 3  # of conjugate gradients for the texture at a new exposure
SETTLED, IDLE = 25, 1e-5  # steps to the minimum, at most, and relative decrease of the cost at which they end
DAMPING, RELAXED = 1e-3, 8.0  # λ of these steps, and its factor after each
SHARE_OF_NODES = 0.5  # of the nodes near a surface, which lie in two layers, that colors of a surface determine


def harmonics(normals: np.ndarray) -> np.ndarray:
    """Real spherical harmonics (..., 8) of orders 1 and 2 of unit normals (..., 3), each of a size of about 1."""
    x, y, z = np.moveaxis(normals, -1, 0)
    return np.stack([x, y, z, x * y, y * z, x * z, x * x - y * y, 3 * z * z - 1], -1)


@dataclass(frozen=True, eq=False)
class Minimum:
    """A texture and its exposure at their minimum, near which others start.

    Args:
        exposure: Gain, offset and light.
        profiled: Normal equations of the exposure without the texture (`Equations.profiled`).
        used: Nodes (nodes,), bool.
        nodes: Colors of these (used, 3).
        factors: Sparse factors of their normal equations, of each channel.
    """

    exposure: Exposure
    profiled: Profiled
    used: np.ndarray
    nodes: np.ndarray
    factors: list


class Texture:
    """Texture of a body from pixels whose points on it are given, its exposure, and what is left.

    Args:
        grid: Where nodes are.
        points: Points on the body (n, 3) [m].
        pixels: The colors there.
        nodes: Colors of all nodes (nodes, 3) of a known texture; None: they are fitted.
        start: Exposure at which the steps start.
        steps: Number of steps.
        near: A minimum for points and colors like these, from which the steps lead to that for these; None: they are of texture and exposure
            together, and end early.

    Attributes:
        shown: Nodes that pixels show (nodes,), bool.
        used: Those, and all others of the surface (nodes,), bool.
        nodes: Colors of these (used, 3).
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
        near: Minimum | None = None,
    ):
        self.grid, self.points, self.pixels, self.known = grid, points, pixels, nodes
        at, weights = grid.weights(points)
        self.shown = np.zeros(int(np.prod(grid.shape)), bool)
        self.shown[at.ravel()] = True
        self.used = self.shown if grid.surface is None else self.shown | grid.surface
        self._number = np.cumsum(self.used) - 1
        ends = np.arange(len(points) + 1) * 8
        columns = self._number[at.ravel()]
        self.at = csr_array((weights.ravel(), columns, ends), (len(points), int(self.used.sum())))
        self.sums = self.at.T.tocsr()
        self._weight = pixels.weight[:, None]
        self.stiffness, self.priors = self._smoothness(), self._priors()
        self._mean = np.average(pixels.color, axis=0, weights=np.maximum(pixels.weight, 1e-12))
        self.exposure = near.exposure if near else start or Exposure.neutral(pixels.frames)
        self.profiled = near.profiled if near else None
        if near is not None and nodes is None and np.array_equal(near.used, self.used):
            self._factors, self.nodes = near.factors, near.nodes
        else:
            self._factorize()
            self.nodes = self._first_nodes() if nodes is None else nodes[self.used]
        self._leave()
        for _ in range(steps):
            if near is None:
                self._step()
            elif not self._profiled_step():
                break

    @property
    def predicted(self) -> np.ndarray:
        """Colors of the model (n, 3)."""
        albedo = self.at @ self.nodes
        return albedo * self.exposure.factor(self.pixels) + self.exposure.offset[self.pixels.frame]

    @property
    def predicted_values(self) -> np.ndarray:
        """Red, green and blue of the model in [0, 1], about (n, 3)."""
        return self.pixels.values(self.predicted)

    def albedo_values(self, points: np.ndarray) -> np.ndarray:
        """Red, green and blue of the texture in [0, 1], about (n, 3), at points (n, 3)."""
        return self.pixels.values(self.grid.interpolate(points, self.all_nodes()))

    def lit_values(self, points: np.ndarray, light: np.ndarray, frame: np.ndarray) -> np.ndarray:
        """Red, green and blue of the model in [0, 1], about (n, 3), at points (n, 3) with harmonics of normals (n, 8) in frames (n,)."""
        factor = self.exposure.gain[frame] + light @ self.exposure.light
        return self.pixels.values(
            self.grid.interpolate(points, self.all_nodes()) * factor + self.exposure.offset[frame]
        )

    def shaded(self, nodes: np.ndarray) -> np.ndarray:
        """Change of the predicted colors (n, 3) by that of all nodes (nodes, 3)."""
        return (self.at @ nodes[self.used]) * self.exposure.factor(self.pixels)

    @property
    def cost(self) -> float:
        """Σ w r², and what priors and smoothness add."""
        cost = (self._weight * self.residual**2).sum()
        off = self.exposure.stacked - self._neutral
        cost += (off * (self.priors @ off)).sum()
        if self.known is None:
            off = self.nodes - self._mean
            cost += (off * (self.stiffness @ off)).sum()
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
        system = Equations(self)
        return columns - system.colors(*system.solve(*system.transposed(columns), PROJECTED))

    def settle(self) -> Minimum:
        """Go to the minimum."""
        damping = DAMPING
        for _ in range(SETTLED):
            last = self.cost
            self._factorize()
            self.profiled = Equations(self).profiled(damping)
            damping *= 1 / RELAXED if self._profiled_step() else RELAXED
            if (1 - IDLE) * last < self.cost < last:
                break
        self._factorize()
        self.profiled = Equations(self).profiled(DAMPING)
        return Minimum(self.exposure, self.profiled, self.used, self.nodes, self._factors)

    def _first_nodes(self) -> np.ndarray:
        """Nodes (used, 3) at the exposure."""
        factor = self.exposure.factor(self.pixels)
        target = self.pixels.color - self.exposure.offset[self.pixels.frame] - factor * self._mean
        return self._mean + self.solve_nodes(self.sums @ (self._weight * factor * target))

    def _right(self, system: Equations) -> tuple[np.ndarray, np.ndarray]:
        """Right sides (used, 3, 1) and (2 frames + 8, 3, 1) of the normal equations of what is left."""
        nodes, exposure = system.transposed(self.residual[..., None])
        if self.known is None:
            nodes -= (self.stiffness @ (self.nodes - self._mean))[..., None]
        exposure -= (self.priors @ (self.exposure.stacked - self._neutral))[..., None]
        return nodes, exposure

    def _step(self) -> None:
        """A Gauss–Newton step of nodes and exposure."""
        system = Equations(self)
        self._move(*system.solve(*self._right(system), ITERATIONS))

    def _profiled_step(self) -> bool:
        """A Gauss–Newton step of the exposure along which the texture follows, and the texture there: a share of it that lowers the cost, or none."""
        nodes, exposure, cost, first = self.nodes, self.exposure, self.cost, Equations(self)
        step = first.solve(*self._right(first), CONVERGED)
        for share in SHARES:
            self._move(*(share * part for part in step))
            if self.known is None:
                system = Equations(self)
                left = self._right(system)
                self._move(system.solve_for_nodes(left[0], REFINED), 0 * left[1])
            if self.cost < cost:
                return True
            self.nodes, self.exposure = nodes, exposure
        self._leave()
        return False

    def _move(self, nodes: np.ndarray, exposure: np.ndarray) -> None:
        self.nodes = self.nodes + nodes[..., 0]
        self.exposure = Exposure.of(self.exposure.stacked + exposure[..., 0])
        self._leave()

    def _leave(self) -> None:
        """Colors less those of the model."""
        self.residual = self.pixels.color - self.predicted

    @property
    def freedom(self) -> float:
        """Numbers that were fitted to the colors, in three channels: at most one for each node that is shown well."""
        amount = np.asarray(self.sums @ self.pixels.weight)
        nodes = 0.0 if self.known is not None else float((amount / (amount + SMOOTH)).sum() * SHARE_OF_NODES)
        return 3 * (nodes + len(self.priors))

    @cached_property
    def _gradient(self) -> np.ndarray:
        return self.grid.gradient(self.points, self.all_nodes())

    def solve_nodes(self, right: np.ndarray) -> np.ndarray:
        """Nodes (used, 3, ...) whose normal equations at the factorized exposure have these right sides."""
        return np.stack([self.solve_channel(c, right[:, c]) for c in range(3)], 1)

    def solve_channel(self, channel: int, right: np.ndarray) -> np.ndarray:
        """Nodes (used, ...) of one channel, likewise."""
        flat = np.asfortranarray(right.reshape(len(right), -1))
        return self._factors[channel].solve(flat).reshape(right.shape)

    def _factorize(self) -> None:
        """Factor the normal equations of the nodes at the exposure; one serves all channels where it is neutral."""
        self._factors: list = []
        if self.known is not None:
            return
        factor = self.exposure.factor(self.pixels)
        count = 3 if self.profiled is not None or np.ptp(factor) > 0 else 1
        self._factors = [self._factor(factor[:, c]) for c in range(count)] * (3 // count)

    def _factor(self, factor: np.ndarray):
        matrix = self.sums @ diags_array(self.pixels.weight * factor**2) @ self.at + self.stiffness
        options = {"SymmetricMode": True}
        return splu(matrix.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    def _smoothness(self) -> csr_array:
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

    def _priors(self) -> np.ndarray:
        """Matrix (2 frames + 8, 2 frames + 8) of the priors of exposure and light, and of the mean factor: a texture can have that as well."""
        pixels, frames = self.pixels, self.pixels.frames
        deviations = np.repeat([GAIN, OFFSET, LIGHT], [frames, frames, 8])
        visible = (pixels.weight > 0).astype(float)  # not the weights, which are by γ
        mean = np.concatenate([np.bincount(pixels.frame, visible, frames), np.zeros(frames), visible @ pixels.light])
        unit = 0.0 if self.known is not None else UNIT / max(visible.sum(), 1.0)
        return np.diag(NOISE**2 / deviations**2) + unit * np.outer(mean, mean)

    @cached_property
    def _neutral(self) -> np.ndarray:
        return Exposure.neutral(self.pixels.frames).stacked
