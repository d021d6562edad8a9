"""Which boxes of a tree each box of a vertex meets, in every world: kernels of `broad_phase.py`; one lane type serves all."""

import warp as wp


@wp.kernel(enable_backward=False)
def count(
    tree: wp.uint64,
    low: wp.array2d[wp.vec3],  # of each vertex, in each world
    high: wp.array2d[wp.vec3],
    # out
    found: wp.array2d[wp.int32],
):
    world, k = wp.tid()
    query = wp.bvh_query_aabb(tree, low[world, k], high[world, k], wp.bvh_get_group_root(tree, world))
    face = wp.int32(0)
    n = wp.int32(0)
    while wp.bvh_query_next(query, face):
        n += 1
    found[world, k] = n


@wp.kernel(enable_backward=False)
def fill(
    tree: wp.uint64,
    low: wp.array2d[wp.vec3],
    high: wp.array2d[wp.vec3],
    end: wp.array2d[wp.int32],  # place after the last of each vertex
    faces: int,
    # out
    pair: wp.array[wp.vec2i],
):
    world, k = wp.tid()
    query = wp.bvh_query_aabb(tree, low[world, k], high[world, k], wp.bvh_get_group_root(tree, world))
    face = wp.int32(0)
    n = end[world, k]
    while wp.bvh_query_next(query, face):
        n -= 1
        pair[n] = wp.vec2i(k, face % faces)
