# pyright: reportInvalidTypeForm=false
"""Preconditioner of an implicit step: blocks of the Jacobian, or its factors where vertices are in line; a template."""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.engine.access_kernels import store
    from gradsim.engine.lanes import Vec3 as Vertex
    from gradsim.physics.forces.assembly import Elements, add_bands, add_diagonals
    from gradsim.physics.soft.kernels import VertexParameters, constant
    from gradsim.physics.soft.krylov_kernels import BANDED, Space, factorize, set_band


@wp.func
def same(a: Real) -> Real:
    return a


if BANDED:

    @wp.func
    def linearize(
        p: VertexParameters,
        e: Elements,
        k: Space,
        i: int,
        frame: int,
        h: Real,
        x: wp.array[Vertex],
        v: wp.array[Vertex],
        transposed: int,
    ):
        """Set the factors of A, or of its transpose, and the rows of the diagonal blocks of h ∂f/∂x + ∂f/∂v."""
        _after = wp.grad(same)(zero(0))  # see assembly
        none = columns(zero3(0), zero3(0), zero3(0))
        for c in range(k.band.shape[1]):
            for m in range(k.band.shape[2]):
                k.band[i, c, m] = none
        add_bands(e, i, frame, h, x, v, k.place, transposed, k.band[i])
        for b in range(k.band.shape[1]):
            set_band(k, i, h, b, p.inverse_mass[i, b], constant(p.free[b]), transposed)
        factorize(k, i)

else:

    @wp.func
    def linearize(
        p: VertexParameters,
        e: Elements,
        k: Space,
        i: int,
        frame: int,
        h: Real,
        x: wp.array[Vertex],
        v: wp.array[Vertex],
        transposed: int,
    ):
        """Set the rows of the diagonal blocks of h ∂f/∂x + ∂f/∂v."""
        _after = wp.grad(same)(zero(0))  # see assembly
        for b in range(p.inverse_mass.shape[1]):
            store(k.d0[i], b, zero3(0))
            store(k.d1[i], b, zero3(0))
            store(k.d2[i], b, zero3(0))
        add_diagonals(e, i, frame, h, x, v, k.d0[i], k.d1[i], k.d2[i])
