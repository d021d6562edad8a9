"""Vertices in arrays of Vec3: each entry is one vertex, of as many worlds as a register has lanes (see `access`)."""

import warp as wp

from gradsim.engine.lanes import *

ATOMIC = globals().get("ATOMIC", False)


@wp.func(inline=True)
def load(x: wp.array[Vec3], i: int) -> Vec3:
    return x[i]


@wp.func(inline=True)
def store(x: wp.array[Vec3], i: int, value: Vec3):
    x[i] = value


if ATOMIC:

    @wp.func(inline=True)
    def scatter(x: wp.array[Vec3], i: int, value: Vec3):
        wp.atomic_add(x, i, value)

else:

    @wp.func(inline=True)
    def scatter(x: wp.array[Vec3], i: int, value: Vec3):
        x[i] = x[i] + value
