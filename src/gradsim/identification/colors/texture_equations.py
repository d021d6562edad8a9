"""Normal equations of small changes of a texture and its exposure, and their solution: one system for each channel.

Nodes T and exposures e move the values of a channel by A_T dT + A_e de, and residuals count with the weights w of pixels, so

    H = [A_Tᵀ w A_T + S,   A_Tᵀ w A_e;   A_eᵀ w A_T,   A_eᵀ w A_e + R]

with the smoothness S and the priors R of exposures. H_TT has sparse factors. Where an exposure is near one whose normal equations without the texture, P = H_ee − H_eT H_TT⁻¹ H_Te, are
known, few steps reach the minimum: light and gains that a texture could have as well are slow in all else, and a cost that has not arrived there depends on where it
started.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from gradsim.identification.colors.texture_parts import Exposure, Pixels

TOLERANCE = 1e-3  # relative size of what conjugate gradients leave


class Linearizable(Protocol):
    """A texture as the equations read it (`texture.Texture`).

    Attributes:
        pixels: The colors.
        at: Interpolation from nodes to pixels.
        sums: Its transpose.
        nodes: Colors of the nodes (used, 3).
        exposure: Gain, offset and light.
        known: Colors of all nodes of a known texture; None of one that is fitted.
        profiled: The equations of the exposure without the texture; None: unknown.
    """

    pixels: Pixels
    at: csr_array
    sums: csr_array
    nodes: np.ndarray
    exposure: Exposure
    known: np.ndarray | None
    profiled: "Profiled | None"

    @property
    def stiffness(self) -> csr_array:
        """Matrix of smoothness."""
        ...

    @property
    def priors(self) -> np.ndarray:
        """Matrix of the priors of exposures."""
        ...

    def solve_nodes(self, right: np.ndarray) -> np.ndarray:
        """Nodes (used, 3, ...) whose equations have these right sides."""
        ...

    def solve_channel(self, channel: int, right: np.ndarray) -> np.ndarray:
        """Nodes (used, ...) of one channel, likewise."""
        ...


@dataclass(frozen=True, eq=False)
class Profiled:
    """Equations of the exposure of a texture without that texture, at one exposure and motion.

    Args:
        inverse: P⁻¹ of each channel (3, 2 frames + 8, 2 frames + 8).
        coupling: H_Te of each channel (3, used, 2 frames + 8); empty of a known texture.
        follow: H_TT⁻¹ H_Te, likewise: what the texture does when the exposure changes.
    """

    inverse: np.ndarray
    coupling: np.ndarray
    follow: np.ndarray


class Equations:
    """Normal equations of small changes of nodes (used, 3, m) and exposure (2 frames + 8, 3, m) at a texture.

    Args:
        texture: The texture; of a known one the nodes stay.
    """

    def __init__(self, texture: Linearizable):
        self.texture, pixels = texture, texture.pixels
        self.pixels, self.albedo = pixels, texture.at @ texture.nodes
        self.factor = texture.exposure.factor(pixels)[..., None]
        ends = np.arange(len(self.albedo) + 1)
        self.by_pixel = csr_array((np.ones(len(self.albedo)), pixels.frame, ends), (len(self.albedo), pixels.frames))
        self.by_frame = self.by_pixel.T.tocsr()
        self.light = np.ascontiguousarray(pixels.light.T)

    def colors(self, nodes: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """Changes of colors (n, 3, m)."""
        changes = self._lit(exposure)
        return changes if self.texture.known is not None else changes + self.factor * _apply(self.texture.at, nodes)

    def transposed(self, colors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted sums of changes of colors (n, 3, m) by nodes and by exposure."""
        weighted = self.pixels.weight[:, None, None] * colors
        lit = self.albedo[..., None] * weighted
        exposure = [_apply(self.by_frame, lit), _apply(self.by_frame, weighted), _apply(self.light, lit)]
        if self.texture.known is None:
            nodes = _apply(self.texture.sums, self.factor * weighted)
        else:
            nodes = np.zeros((len(self.texture.nodes), *colors.shape[1:]))
        return nodes, np.concatenate(exposure)

    def solve(self, nodes: np.ndarray, exposure: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
        """Changes of nodes and exposure whose normal equations have these right sides, by conjugate gradients."""
        x = np.zeros_like(nodes), np.zeros_like(exposure)
        r = nodes, exposure
        z = self.preconditioned(*r)
        d, rho = z, _dot(r, z)
        first = np.maximum(rho, 1e-300)
        for _ in range(iterations):
            y = self._matrix(*d)
            step = rho / np.maximum(_dot(d, y), 1e-300)
            x = tuple(a + step * b for a, b in zip(x, d, strict=True))
            r = tuple(a - step * b for a, b in zip(r, y, strict=True))
            z = self.preconditioned(*r)
            new = _dot(r, z)
            if (new <= TOLERANCE**2 * first).all():
                break
            share = new / np.maximum(rho, 1e-300)
            d, rho = tuple(a + share * b for a, b in zip(z, d, strict=True)), new
        return x[0], x[1]

    def solve_for_nodes(self, nodes: np.ndarray, iterations: int) -> np.ndarray:
        """Changes of nodes whose own normal equations have these right sides, at a fixed exposure."""
        x, r = np.zeros_like(nodes), nodes
        d = z = self.texture.solve_nodes(r)
        rho = (r * z).sum(0)
        for _ in range(iterations):
            y = self._node_matrix(d)
            step = rho / np.maximum((d * y).sum(0), 1e-300)
            x, r = x + step * d, r - step * y
            z = self.texture.solve_nodes(r)
            new = (r * z).sum(0)
            d, rho = z + new / np.maximum(rho, 1e-300) * d, new
        return x

    def preconditioned(self, nodes: np.ndarray, exposure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """About the solution for these right sides: nearly exact with the equations without the texture."""
        known, profiled = self.texture.known is not None, self.texture.profiled
        if profiled is None or known:
            inverse = self.exposure_inverse if profiled is None else profiled.inverse
            return (nodes if known else self.texture.solve_nodes(nodes)), _times(inverse, exposure)
        first = self.texture.solve_nodes(nodes)
        if len(profiled.follow[0]) == len(nodes):
            change = _times(profiled.inverse, exposure - _times(profiled.coupling.swapaxes(1, 2), first))
            return first - _times(profiled.follow, change), change
        # of a texture with other nodes
        change = _times(profiled.inverse, exposure - self.transposed(self.factor * _apply(self.texture.at, first))[1])
        return first - self.texture.solve_nodes(self.transposed(self._lit(change))[0]), change

    def profiled(self, damping: float) -> Profiled:
        """(P + λ diag H_ee)⁻¹ of each channel, and how nodes and exposure depend on one another."""
        fixed, pixels = self.exposure_matrices, self.pixels
        matrices = fixed + damping * fixed.diagonal(axis1=1, axis2=2)[:, :, None] * np.eye(fixed.shape[1])
        coupling, follow = [], []
        for c in range(3):
            if self.texture.known is not None:
                coupling.append(np.zeros((0, fixed.shape[1])))
                follow.append(coupling[-1])
                continue
            weight = (pixels.weight * self.factor[:, c, 0])[:, None]
            lit = self.albedo[:, c : c + 1] * weight
            parts = [
                self.by_pixel.multiply(lit).toarray(),
                self.by_pixel.multiply(weight).toarray(),
                pixels.light * lit,
            ]
            sums = self.texture.sums @ np.concatenate(parts, 1)
            coupling.append(sums)
            follow.append(self.texture.solve_channel(c, sums))
            matrices[c] -= sums.T @ follow[-1]
        return Profiled(np.linalg.inv(matrices), np.stack(coupling), np.stack(follow))

    @cached_property
    def exposure_inverse(self) -> np.ndarray:
        """H_ee⁻¹ of each channel (3, 2 frames + 8, 2 frames + 8)."""
        return np.linalg.inv(self.exposure_matrices)

    @cached_property
    def exposure_matrices(self) -> np.ndarray:
        """H_ee of each channel (3, 2 frames + 8, 2 frames + 8)."""
        return np.stack([self._exposure_matrix(self.albedo[:, c]) for c in range(3)])

    def _exposure_matrix(self, albedo: np.ndarray) -> np.ndarray:
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
        return matrix + self.texture.priors

    def _lit(self, exposure: np.ndarray) -> np.ndarray:
        """Changes of colors (n, 3, m) by those of exposures."""
        frames, frame = self.pixels.frames, self.pixels.frame
        factor = exposure[:frames][frame] + _apply(self.pixels.light, exposure[2 * frames :])
        return factor * self.albedo[..., None] + exposure[frames : 2 * frames][frame]

    def _matrix(self, nodes: np.ndarray, exposure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by_nodes, by_exposure = self.transposed(self.colors(nodes, exposure))
        if self.texture.known is None:
            by_nodes = by_nodes + _apply(self.texture.stiffness, nodes)
        return by_nodes, by_exposure + _apply(self.texture.priors, exposure)

    def _node_matrix(self, nodes: np.ndarray) -> np.ndarray:
        weighted = self.pixels.weight[:, None, None] * self.factor**2 * _apply(self.texture.at, nodes)
        return _apply(self.texture.sums, weighted) + _apply(self.texture.stiffness, nodes)


def _times(matrices: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Matrices (3, p, q) of each channel times columns (q, 3, m)."""
    return np.stack([matrix @ columns[:, c] for c, matrix in enumerate(matrices)], 1)


def _apply(matrix, columns: np.ndarray) -> np.ndarray:
    """Matrix times (n, ...)."""
    return (matrix @ columns.reshape(len(columns), -1)).reshape(-1, *columns.shape[1:])


def _dot(a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> np.ndarray:
    """Inner products (3, m) of stacked vectors."""
    return sum((x * y).sum(0) for x, y in zip(a, b, strict=True))  # pyright: ignore[reportReturnType]
