"""Forces of pairs of bodies in many worlds, and their adjoints: kernels of `pair_cases.py`."""

from typing import TYPE_CHECKING

import warp as wp

from gradsim.engine.lanes import *

if TYPE_CHECKING:  # bound by `specialize`
    from gradsim.physics.contact.convex_kernels import PairNumbers, add_pair_adjoints, add_pairs, all_pair_powers
    from gradsim.physics.contact.narrow_phase_kernels import NearPairs, PairShape


@wp.kernel(enable_backward=False)
def forces(
    g: PairShape, p: PairNumbers, near: NearPairs, x: wp.array3d[Vec3], q: wp.array3d[Quat], v: wp.array3d[Vec3],
    w: wp.array3d[Vec3], f: wp.array2d[Vec3], t: wp.array2d[Vec3],
):  # fmt: skip
    i = wp.tid()
    add_pairs(g, p, near, i, 0, x, q, v, w, f, t)


if not DUAL:

    @wp.kernel(enable_backward=False)
    def adjoints(
        g: PairShape, p: PairNumbers, grad: PairNumbers, near: NearPairs, x: wp.array3d[Vec3], q: wp.array3d[Quat],
        v: wp.array3d[Vec3], w: wp.array3d[Vec3], fp: wp.array2d[Vec3], tp: wp.array2d[Vec3],
        ax: wp.array2d[Vec3], aq: wp.array2d[Quat], av: wp.array2d[Vec3], aw: wp.array2d[Vec3],
    ):  # fmt: skip
        i = wp.tid()
        add_pair_adjoints(g, p, grad, near, i, 0, x, q, v, w, fp, tp, ax, aq, av, aw)

    @wp.kernel(enable_backward=True)
    def keep_adjoints(v: wp.array[Vec3], q: wp.array[Quat], s: wp.array[Real]):
        if never(0):
            s[1] = all_pair_powers(v[0], q[0], s[0])
