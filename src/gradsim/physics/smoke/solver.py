"""Smoke: the flow of an incompressible fluid with an advected density, after Stam (Stable Fluids, 1999).

    ∂u/∂t = −(u·∇) u + ν ∇²u + b ρ + f − ∇p,    ∇·u = 0,    ∂ρ/∂t = −(u·∇) ρ + s

one step of which is

    u* = advect(u, u) + dt (f + b ρ)             `advection.py`
    u' = project(diffuse(u*))                    `projection.py`
    ρ' = advect(ρ, u') + dt s

on a staggered grid (`grid.py`). Every velocity of a trajectory is free of divergence to rounding, the first one
too: what is given is projected. Steps are of first order in dt, and any dt is stable.

What advection keeps: the range of values, always. The mass Σ ρ, to rounding, where the velocity is uniform; elsewhere up
to the scheme's error: means are taken where particles were, and add up to more in one place and less in another.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gradsim.engine.lanes import check_dtype
from gradsim.engine.operation import may_be_differentiated, operation
from gradsim.errors import InputError
from gradsim.physics.divergence import Divergence
from gradsim.physics.smoke.advection import SCHEMES, Advection
from gradsim.physics.smoke.grid import Grid
from gradsim.physics.smoke.projection import Diffuse, Project


@dataclass(frozen=True)
class Plume:
    """Trajectory of a smoke simulation.

    Args:
        times: Times of the frames (frames,) [s].
        velocity: At lower faces of cells (worlds, frames, dimensions, *shape) [m/s].
        density: At centres of cells (worlds, frames, *shape); in two dimensions an image, axis 0 downwards.
        grid: The cells.
    """

    times: Tensor
    velocity: Tensor
    density: Tensor
    grid: Grid

    @property
    def divergence(self) -> Tensor:
        """Divergence of the velocity in each cell (worlds, frames, *shape) [1/s]; zero up to rounding."""
        return self.grid.divergence(self.velocity)


class Smoke(nn.Module):
    """A box of fluid that carries smoke, differentiable.

        smoke = gs.Smoke((128, 128), spacing=1 / 128, dt=0.01, buoyancy=(-1.0, 0.0))
        plume = smoke.rollout(density=disc, frames=100)
        plume.density[:, -1].sub(image).square().mean().backward()

    Axis 0 runs down an image (height, width), axis 1 to the right.

    Args:
        shape: Cells along two or three axes.
        spacing: Edge of a cell [m], one for all axes or one for each.
        dt: Step [s].
        boundary: "periodic", or "walled" (the fluid slips along walls), one for all axes or one for each.
        obstacles: Which cells are solid, bool of that shape.
        viscosity: ν [m²/s], at least 0. The parameter `viscosity`; 0 leaves its solve out unless it wants a gradient.
        buoyancy: b, acceleration by smoke of density 1 along each axis [m/s²]. The parameter `buoyancy`.
        advection: "bilinear", or "maccormack", which blurs less.
        dtype: torch.float32 or torch.float64.
        device: Any device of PyTorch that Warp knows too.

    Raises:
        InputError: If one of them is not that.
    """

    def __init__(
        self,
        shape: Sequence[int],
        spacing: float | Sequence[float],
        dt: float,
        *,
        boundary: str | Sequence[str] = "periodic",
        obstacles: Tensor | None = None,
        viscosity: float = 0.0,
        buoyancy: Sequence[float] | None = None,
        advection: str = "bilinear",
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ):
        super().__init__()
        check_dtype(dtype)
        if not (isinstance(dt, int | float) and 0 < dt < float("inf")):
            raise InputError(f"dt: got {dt}; expected a step above 0 [s].")
        if advection not in SCHEMES:
            raise InputError(f"advection: got {advection!r}; expected {' or '.join(SCHEMES)}.")
        self.grid, self.dt, self._scheme = Grid(shape, spacing, boundary, obstacles), float(dt), advection
        like = torch.zeros((), dtype=dtype, device=device)
        up = [0.0] * self.grid.dimensions if buoyancy is None else list(buoyancy)
        self.viscosity = nn.Parameter(like.new_tensor(viscosity), requires_grad=False)
        self.buoyancy = nn.Parameter(like.new_tensor(up), requires_grad=False)
        self._build(like)
        self._values("viscosity", self.viscosity, ())
        self._values("buoyancy", self.buoyancy, (self.grid.dimensions,))

    def _build(self, like: Tensor) -> None:
        """Make the operations of a step, for tensors of the dtype and device of `like`."""
        self._advect = Advection(self.grid, self.dt, self._scheme, like)
        self._project = operation(Project(self.grid, like))
        self._diffuse = operation(Diffuse(self.grid, self.dt, like))
        self._fluid = None if self.grid.solid is None else (~self.grid.solid).to(like)

    def _apply(self, fn, recurse=True):
        """Convert all tensors by `fn`; PyTorch calls this for `to`, `float`, `cuda` and the like."""
        before = self.viscosity
        after = fn(before.detach().clone())
        check_dtype(after.dtype)
        converted = (after.dtype, after.device) != (before.dtype, before.device)
        super()._apply(fn, recurse)
        if converted:
            self._build(after)
        return self

    def rollout(
        self,
        velocity: Tensor | None = None,
        density: Tensor | None = None,
        *,
        frames: int,
        substeps: int = 1,
        forces: Tensor | None = None,
        sources: Tensor | None = None,
        viscosity: Tensor | None = None,
        buoyancy: Tensor | None = None,
        segment: int | None = 10,
    ) -> Plume:
        """Move smoke through time; differentiable by all that is given, and by the parameters.

        Whatever is the same for all worlds may lack their dimension, but not what differs by interval.

        Args:
            velocity: At the start (worlds, dimensions, *shape) [m/s], at lower faces; None: at rest.
            density: At the start (worlds, *shape); None: none.
            frames: How many, frame 0 being the start.
            substeps: Steps of dt from one frame to the next.
            forces: f (worlds, dimensions, *shape) [m/s²], or with one for each interval between frames
                (worlds, frames - 1, dimensions, *shape); at lower faces.
            sources: s (worlds, *shape) [1/s], or (worlds, frames - 1, *shape).
            viscosity: ν (worlds,) instead of the parameter.
            buoyancy: b (worlds, dimensions) instead of the parameter.
            segment: Frames between two checkpoints of the backward pass, from which it runs again: memory against one
                more forward pass. None keeps everything.

        Raises:
            InputError: If something given has a wrong shape, dtype or device, or is not finite.
            Divergence: If smoke or velocity leaves the finite numbers.
        """
        for name, count in (("frames", frames), ("substeps", substeps), ("segment", segment or 1)):
            if not isinstance(count, int) or count < 1:
                raise InputError(f"{name}: got {count}; expected a whole number of at least 1.")
        shape, axes = self.grid.shape, self.grid.dimensions
        fields = {
            "velocity": self._values("velocity", velocity, (axes, *shape)),
            "density": self._values("density", density, shape),
            "forces": self._values("forces", forces, (axes, *shape), frames - 1),
            "sources": self._values("sources", sources, shape, frames - 1),
            "viscosity": self._values("viscosity", self.viscosity if viscosity is None else viscosity, ()),
            "buoyancy": self._values("buoyancy", self.buoyancy if buoyancy is None else buoyancy, (axes,)),
        }
        sizes = {name: len(x) for name, x in fields.items() if x is not None and len(x) != 1}
        if len(set(sizes.values())) > 1:
            raise InputError(f"worlds differ: got {sizes}; expected one number of worlds for all, or 1.")
        dims = {"forces": axes + 2, "sources": axes + 1}  # of those that do not change over time
        steady = {n: tuple(x.shape) for n in dims if (x := fields[n]) is not None and n in sizes and x.dim() == dims[n]}
        if steady and len(steady) == len(sizes) and frames - 1 in sizes.values():
            name, shape = next(iter(steady.items()))
            inner = "".join(f", {n}" for n in shape[1:])
            raise InputError(
                f"{name}: got shape {shape}, which is one for each of {frames - 1} worlds, or of as many intervals "
                f"between frames. Give (1, {frames - 1}{inner}) for the intervals, or "
                f"({frames - 1}, {frames - 1}{inner}) for worlds."
            )
        worlds = next(iter(sizes.values()), 1)
        inputs = [None if x is None else x.expand(worlds, *x.shape[1:]) for x in fields.values()]
        return self._rolled(worlds, frames, substeps, segment, *inputs)

    def _rolled(self, worlds, frames, substeps, segment, velocity, density, forces, sources, viscosity, buoyancy):
        shape = self.grid.shape
        rho = self.buoyancy.new_zeros(worlds, *shape) if density is None else density
        u = self.buoyancy.new_zeros(worlds, len(shape), *shape) if velocity is None else velocity
        (u,) = self._project(u)
        rho = rho if self._fluid is None else rho * self._fluid
        velocities, densities = [u], [rho]
        forces = _intervals(forces, frames - 1, len(shape) + 2)
        sources = _intervals(sources, frames - 1, len(shape) + 1)
        viscosity, buoyancy = (x if may_be_differentiated(x) or x.any() else None for x in (viscosity, buoyancy))
        reach = segment or frames
        for begin in range(0, frames - 1, reach):
            end = min(begin + reach, frames - 1)
            arguments = (u, rho, forces[begin:end], sources[begin:end], viscosity, buoyancy, substeps)
            if segment is None or not torch.is_grad_enabled():
                more = self._segment(*arguments)
            else:
                more = checkpoint(self._segment, *arguments, use_reentrant=False, preserve_rng_state=False)
            u, rho = more[0][-1], more[1][-1]
            velocities += more[0]
            densities += more[1]
            if not (u.isfinite().all() and rho.isfinite().all()):
                raise self._diverged(velocities, densities)
        times = torch.arange(frames, dtype=torch.float64) * (self.dt * substeps)
        return Plume(times, torch.stack(velocities, 1), torch.stack(densities, 1), self.grid)

    def _segment(self, u, rho, forces, sources, viscosity, buoyancy, substeps) -> tuple[list[Tensor], list[Tensor]]:
        """Velocities and densities of the next frames."""
        velocities, densities = [], []
        for force, source in zip(forces, sources, strict=True):
            for _ in range(substeps):
                u, rho = self._step(u, rho, force, source, viscosity, buoyancy)
            velocities.append(u)
            densities.append(rho)
        return velocities, densities

    def _step(self, u, rho, force, source, viscosity, buoyancy) -> tuple[Tensor, Tensor]:
        following = self._advect(u, u)
        if force is not None:
            following = following + self.dt * force
        if buoyancy is not None:
            lift = buoyancy.view(*buoyancy.shape, *[1] * self.grid.dimensions) * self.grid.at_faces(rho)
            following = following + self.dt * lift
        if viscosity is not None:
            (following,) = self._diffuse(following, viscosity)
        (following,) = self._project(following)
        rho = self._advect(rho, following)
        if source is not None:
            added = source if self._fluid is None else source * self._fluid
            rho = rho + self.dt * added
        return following, rho

    def _values(self, name: str, x: Tensor | None, shape: tuple[int, ...], intervals: int | None = None):
        """`x` as (worlds or 1, ...), checked."""
        if x is None:
            return None
        like = self.buoyancy
        if not isinstance(x, Tensor) or x.dtype != like.dtype or x.device != like.device:
            got = f"{x.dtype} on {x.device}" if isinstance(x, Tensor) else type(x).__name__
            raise InputError(f"{name}: got {got}; this smoke takes a {like.dtype} tensor on {like.device}.")
        tail = tuple(x.shape[x.dim() - len(shape) :])
        lead = x.shape[: x.dim() - len(shape)]
        timed = intervals is not None and len(lead) == 2 and lead[1] == intervals
        if tail != shape or not (len(lead) < 2 or timed) or 0 in lead[:1]:
            also = f", or (worlds, {intervals}, ...) for one for each interval" if intervals is not None else ""
            inner = "".join(f", {n}" for n in shape)
            raise InputError(f"{name}: got shape {tuple(x.shape)}; expected (worlds{inner}){also}.")
        if not x.detach().isfinite().all():
            raise InputError(f"{name}: got values that are not finite; remove them.")
        if name == "viscosity" and (x.detach() < 0).any():
            raise InputError(f"viscosity: got {x.detach().min().item():g}; expected at least 0 [m²/s].")
        return x if lead else x[None]

    def _diverged(self, velocities: list[Tensor], densities: list[Tensor]) -> Divergence:
        both = (("velocity", velocities), ("density", densities))
        failures = [(k, name) for name, states in both for k, y in enumerate(states) if not y.isfinite().all()]
        k, name = min(failures, key=lambda where: where[0])  # of two, what moves the other
        return Divergence(f"the {name} of the smoke becomes non-finite at frame {k}; make forces or sources smaller.")


def _intervals(x: Tensor | None, count: int, dims: int) -> list:
    """One for each interval between frames."""
    if x is None or x.dim() == dims:
        return [x] * count
    return list(x.unbind(1))
