"""Masks whose edges are shares of light, where the response of the camera is unknown or has a prior.

    r = √w (image(u) − α(γ, g)) / σ,      ∂r/∂γ = −√w ∂α/∂γ / σ          α: `video.response`

Other masks are data; these are those of the γ and the gain g of each world. What differs from the background, and the weights, are those of the scene's own numbers. The far
residuals of a search (`cdf`) are, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from gradsim.identification.observation.base import Masks, Residual, normal_equations
from gradsim.identification.observation.projection import Sensitivity, image_vertices
from gradsim.physics.trajectory import Trajectory
from gradsim.video.response import Edges

NUMBERS = ("gamma", "gain")


class LightMasks(Masks):
    """Masks that follow the response of the camera.

    Args:
        masks: Those of the scene's response.
        edges: Colors at edges, of the same pixels.
        gamma, gain: Of the scene.
    """

    def __init__(self, masks: Masks, edges: Edges, gamma: float, gain: float):
        self.__dict__.update(masks.replaced().__dict__)
        self.edges, self.gamma, self.gain = edges, gamma, gain
        self._share = torch.ones(len(edges.index)).double()  # of a pixel's mask in that of its bin

    def _response(self, values: Mapping[str, Tensor], world: int) -> tuple[Tensor | float, Tensor | float]:
        numbers = []
        for key in NUMBERS:
            column = values.get(f"{self.silhouettes.lens}.{key}")
            numbers.append(getattr(self, key) if column is None else column[min(world, len(column) - 1)].double())
        return numbers[0], numbers[1]

    def _is_stated(self, values: Mapping[str, Tensor], world: int) -> bool:
        numbers = [x.detach() if isinstance(x, Tensor) else x for x in self._response(values, world)]
        return [float(x) for x in numbers] == [self.gamma, self.gain]

    def masks_of(self, values: Mapping[str, Tensor], world: int = 0) -> Tensor:
        """Masks (frames, height, width) at the numbers of one world; differentiable."""
        gamma, gain = self._response(values, world)
        if self._is_stated(values, world) and not _has_gradient(gamma, gain):
            return self.masks
        change = self._share * (self.edges.coverage(gamma, gain) - self.edges.coverage(self.gamma, self.gain))
        return self._spread(change).to(self.masks) + self.masks

    def at_values(self, values: Mapping[str, Tensor], world: int = 0) -> Masks:
        """Plain masks at the numbers of one world."""
        if self._is_stated(values, world):
            return self._plain
        return self.replaced(self.masks_of(values, world).detach())._plain  # pyright: ignore[reportAttributeAccessIssue]

    @cached_property
    def _plain(self) -> Masks:
        plain = self.replaced()
        plain.__class__ = Masks
        return plain

    def replaced(self, masks: Tensor | None = None, sigma: float | None = None) -> Masks:
        other = super().replaced(masks, sigma)
        other.__dict__.pop("_plain", None)
        return other

    def _spread(self, change: Tensor) -> Tensor:
        return change.new_zeros(self.masks.numel()).index_add(0, self.edges.index, change).view_as(self.masks)

    def residuals(self, trajectory: Trajectory, frames: int, residual: Residual) -> Iterator[Tensor]:
        images = self.silhouettes.union(trajectory.surface, trajectory.values)
        rows = []
        for world, image in enumerate(images):
            part = self if residual != "pixels" else self.replaced(self.masks_of(trajectory.values, world))
            rows.append(Masks.compared(part, image[None], frames, residual))
        yield torch.cat(rows)

    def linearize(self, s: Sensitivity, frames: int, residual: Residual) -> Iterator[tuple[Tensor, Tensor]]:
        screen, slope, faces, convex = image_vertices(self.silhouettes, s).shapes
        blocks = [self._linear_world(s, w, screen, slope, faces, convex, frames, residual) for w in range(len(screen))]
        for parts in zip(*blocks, strict=True):
            yield torch.cat([r for r, _ in parts]), torch.cat([J for _, J in parts])

    def _linear_world(self, s: Sensitivity, world: int, screen, slope, faces, convex, frames: int, residual: Residual):
        one = slice(world, world + 1)
        if residual != "pixels":
            return list(Masks.linear(self, screen[one], slope[one], faces, convex, frames, residual))
        columns = self._columns(s, world)
        plain, first, blocks = self.at_values(s.worlds, world), 0, []
        scale = (self.weight.sqrt() / self.sigma).flatten()
        for r, J in plain._linear(screen[one], slope[one], faces, convex, frames, None):
            last = first + r.shape[1]
            more = [
                -scale[first:last] * c.flatten()[first:last] if c is not None else r.new_zeros(last - first)
                for c in columns
            ]
            blocks.append(self.loss.winsorize(r, J + torch.stack(more, -1)))
            first = last
        return blocks

    def _columns(self, s: Sensitivity, world: int) -> list[Tensor | None]:
        """Derivatives of the masks by each unknown; None where there is none."""
        gamma, gain = (float(x) for x in self._response(s.worlds, world))
        rows, slopes = [], None
        for k in range(s.unknowns):
            along = [s.direction.get(f"{self.silhouettes.lens}.{key}") for key in NUMBERS]
            sizes = [0.0 if d is None else d[world * s.unknowns + k].item() for d in along]
            if not any(sizes):
                rows.append(None)
                continue
            slopes = slopes or self.edges.slopes(gamma, gain)
            rows.append(self._spread(self._share * sum(d * y for d, y in zip(sizes, slopes, strict=True))))
        return rows

    @torch.no_grad()
    def cost(self, trajectory: Trajectory, frames: int, residual: Residual) -> Tensor:
        screen, slope, faces, convex = image_vertices(self.silhouettes, trajectory).shapes
        costs = []
        for world in range(len(screen)):
            one = slice(world, world + 1)
            part = self.at_values(trajectory.values, world) if residual == "pixels" else self
            costs.append(Masks.sums(part, screen[one], slope[one], faces, convex, frames, residual)[0])
        return torch.cat(costs)

    def normal(self, s: Sensitivity, frames: int, residual: Residual) -> tuple[Tensor, Tensor, Tensor]:
        worlds = range(len(next(iter(s.worlds.values()))))
        still = not any(f"{self.silhouettes.lens}.{key}" in s.direction for key in NUMBERS)
        if residual != "pixels" or (still and all(self._is_stated(s.worlds, world) for world in worlds)):
            return super().normal(s, frames, residual)
        return normal_equations(self.linearize(s, frames, residual))

    def binned(self, factor: int) -> Masks:
        plain, counts = super().binned(factor), self._counts.unflatten(1, (-1, factor)).unflatten(3, (-1, factor))
        part = LightMasks(plain, self.edges, self.gamma, self.gain)
        height, width = self.masks.shape[1:]
        frame, place = self.edges.index // (height * width), self.edges.index % (height * width)
        row, column = place // width // factor, place % width // factor
        part.edges = replace(self.edges, index=(frame * (height // factor) + row) * (width // factor) + column)
        used = counts.mean((2, 4)).flatten()[part.edges.index]
        share = self._share * self._counts.flatten()[self.edges.index] / (factor**2 * used.clamp(min=1e-300))
        part._share = torch.where(used > 0.75, share, 0.0)
        return part

    def slice_frames(self, first: int, last: int) -> Masks:
        plain, size = super().slice_frames(first, last), self.masks[0].numel()
        within = (self.edges.index >= first * size) & (self.edges.index < last * size)
        pick = lambda y: y[within]
        edges = replace(
            self.edges,
            index=pick(self.edges.index) - first * size,
            image=pick(self.edges.image),
            behind=pick(self.edges.behind),
            inside=pick(self.edges.inside),
        )
        part = LightMasks(plain, edges, self.gamma, self.gain)
        part._share = pick(self._share)
        return part


def _has_gradient(*numbers: Tensor | float) -> bool:
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in numbers)
