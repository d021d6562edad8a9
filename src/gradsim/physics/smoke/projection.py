"""Pressure projection and implicit diffusion of velocities: two symmetric solves, each its own adjoint.

    project    u' = M u − M G p,   L p = −D M u,   L = −D M G             (Chorin 1968; Stam 1999, Sec. 2.1)
    diffuse    (1 + dt ν L_a) u_a' = u_a,          backward Euler         (Stam 1999, Sec. 2.2)

u' of the first is the nearest velocity without divergence: an orthogonal projection, so symmetric. By ν, the second has
∂u'/∂ν = −dt (1 + dt ν L)⁻¹ L u'. A box without obstacles is solved by its eigenvectors; with obstacles, conjugate
gradients start from there. Energies of a fluid around obstacles and of its smoothest continuation into them differ by a
factor that knows nothing of the cells' size, so the number of their steps does not either.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gradsim.physics.divergence import Divergence
from gradsim.physics.smoke.grid import Grid
from gradsim.physics.smoke.spectral import Spectrum

MAX_ITERATIONS = 200  # of conjugate gradients at most; some 20 are usual
ROUNDING = 16  # units in the last place that a residual may have


class Project:
    """A program from velocities (worlds, dimensions, *shape) to their part without divergence."""

    def __init__(self, grid: Grid, like: Tensor):
        self.grid, self.spectrum = grid, Spectrum(grid, None, like)
        passable = grid.passable()
        self.passable = None if passable is None else passable.to(like)
        rates = self.spectrum.rates
        self.inverse = torch.where(rates > 0, 1 / rates.where(rates > 0, 1), 0)  # a constant p does nothing

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[0].shape)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        velocity = inputs[0] if self.passable is None else inputs[0] * self.passable
        r = -self.grid.divergence(velocity)
        p = self._inverted(r)
        if self.grid.solid is not None:
            p = conjugate_gradients(self._laplacian, self._inverted, r, p, largest(velocity) / min(self.grid.spacing))
        return [velocity - self._gradient(p)]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        return list(self.forward(adjoints))

    def _inverted(self, r: Tensor) -> Tensor:
        return self.spectrum.apply(r, lambda y: y * self.inverse)

    def _gradient(self, p: Tensor) -> Tensor:
        gradient = self.grid.gradient(p)
        return gradient if self.passable is None else gradient * self.passable

    def _laplacian(self, p: Tensor) -> Tensor:
        return -self.grid.divergence(self._gradient(p))


class Diffuse:
    """A program from velocities, and viscosities (worlds,) [m²/s], to velocities one step later.

    Walls let the fluid slip; it sticks to obstacles.

    Args:
        grid: Grid of the velocities.
        dt: Step [s].
        like: Tensor of the dtype and device.
    """

    def __init__(self, grid: Grid, dt: float, like: Tensor):
        self.grid, self.dt = grid, dt
        self.spectra = [Spectrum(grid, a, like) for a in range(grid.dimensions)]
        passable = grid.passable()
        self.passable = None if passable is None else passable.to(like)

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [tuple(inputs[0].shape)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        return [self._solved(*inputs)]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        by_velocity = self._solved(adjoints[0], inputs[1])
        return [by_velocity, -self.dt * products(by_velocity, self._laplacian(outputs[0]))]

    def _solved(self, velocity: Tensor, viscosity: Tensor) -> Tensor:
        by = self.dt * viscosity.view(-1, *[1] * self.grid.dimensions)
        velocity = velocity if self.passable is None else velocity * self.passable
        spread = self._inverted(velocity, by)
        if self.grid.solid is None:
            return spread
        whole = lambda u: u + by[:, None] * self._laplacian(u)
        return conjugate_gradients(whole, lambda u: self._inverted(u, by), velocity, spread, largest(velocity))

    def _inverted(self, velocity: Tensor, by: Tensor) -> Tensor:
        parts = zip(self.spectra, velocity.unbind(1), strict=True)
        spread = torch.stack([s.apply(u, lambda y, s=s: y / (1 + by * s.rates)) for s, u in parts], 1)
        return spread if self.passable is None else spread * self.passable

    def _laplacian(self, velocity: Tensor) -> Tensor:
        """L u, for u that is 0 where nothing passes."""
        parts = [self._second_differences(u, axis) for axis, u in enumerate(velocity.unbind(1))]
        total = torch.stack(parts, 1)
        return total if self.passable is None else total * self.passable

    def _second_differences(self, u: Tensor, own: int) -> Tensor:
        total = torch.zeros_like(u)
        for k, (a, h) in enumerate(zip(self.grid.axes, self.grid.spacing, strict=True)):
            upper, lower = u.roll(-1, a) - u, u - u.roll(1, a)
            if self.grid.walled[k] and k != own:  # no slope at the walls
                upper.select(a, -1).zero_()
                lower.select(a, 0).zero_()
            total -= (upper - lower) / h**2
        return total


def largest(x: Tensor) -> Tensor:
    """Largest |x| of each world."""
    return x.abs().flatten(1).amax(1)


def products(x: Tensor, y: Tensor) -> Tensor:
    """⟨x, y⟩ of each world, one by one: digits of sums over several at once depend on how many they are."""
    return torch.stack([(a * b).sum() for a, b in zip(x, y, strict=True)])


def conjugate_gradients(
    matrix: Callable[[Tensor], Tensor],
    precondition: Callable[[Tensor], Tensor],
    b: Tensor,
    x: Tensor,
    scale: Tensor,
) -> Tensor:
    """x with A x = b for each world, A symmetric and not negative, and b in its range (Hestenes & Stiefel 1952).

    A world that is solved stays as it is while others go on, so that its digits do not depend on them.

    Args:
        matrix: A.
        precondition: A symmetric inverse of something near A.
        b: (worlds, ...).
        x: Where to start.
        scale: Size of the terms that b is a sum of (worlds,): the residual goes down to their rounding, beyond which
            there is nothing to solve.

    Raises:
        Divergence: If a world is not solved after the maximum number of steps: the result would not be a projection,
            nor its adjoint the transpose.
    """
    spread = lambda s: s.view(-1, *[1] * (b.dim() - 1))
    enough = ROUNDING * torch.finfo(b.dtype).eps * scale
    r = b - matrix(x)
    z = precondition(r)
    d, rz = z, products(r, z)
    unsolved = lambda: (largest(r) > enough) & (rz > 0)
    for _ in range(MAX_ITERATIONS):
        going = unsolved()
        if not going.any():
            return x
        ad = matrix(d)
        curvature = products(d, ad)
        alpha = spread(torch.where(going & (curvature > 0), rz / curvature, 0))
        x, r = x + alpha * d, r - alpha * ad
        z = precondition(r)
        following = products(r, z)
        beta = spread(torch.where(going, following / rz, 0))
        d, rz = torch.where(spread(going), z + beta * d, d), torch.where(going, following, rz)
    going = unsolved()
    if going.any():
        world = int(torch.where(going, largest(r) / enough, 0).argmax())
        raise Divergence(
            f"the solve around obstacles leaves a residual of {largest(r)[world].item():.2g} in world {world} after "
            f"{MAX_ITERATIONS} steps of conjugate gradients; expected at most {enough[world].item():.2g}. Use obstacles of "
            f"simpler shape, or fewer cells."
        )
    return x
