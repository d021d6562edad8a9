# pyright: reportInvalidTypeForm=false
"""Vertex values interpolated at fragments: a template for `engine.lanes`."""

import warp as wp

from gradsim.engine.lanes import Scalar

Three = wp.types.vector(3, Scalar)  # channels
Place = wp.types.vector(4, Scalar)  # barycentrics b_0, b_1, b_2 and depth z [m]


@wp.kernel(enable_backward=False)
def interpolate(
    place: wp.array[Place],
    values: wp.array[Three],  # (images or 1, entries, groups), as one row: long indices cost more than sums
    page: int,  # groups of an image; 0: all images share one
    groups: int,  # of three channels, which together cost less than half of three alone
    table: wp.array[wp.vec3i],  # entries of each face
    owner: wp.array[wp.vec4i],
    # out
    mixed: wp.array[Three],  # (fragments, groups)
):
    k = wp.tid()
    pixel = owner[k]
    entries = table[pixel[1]]
    first = page * pixel[0]
    w = place[k]
    for g in range(groups):
        a = values[first + groups * entries[0] + g]
        b = values[first + groups * entries[1] + g]
        c = values[first + groups * entries[2] + g]
        mixed[groups * k + g] = w[0] * a + w[1] * b + w[2] * c


@wp.kernel(enable_backward=False)
def interpolate_adjoint(
    place: wp.array[Place],
    values: wp.array[Three],
    page: int,
    groups: int,
    table: wp.array[wp.vec3i],
    owner: wp.array[wp.vec4i],
    mixed_adjoint: wp.array[Three],
    # out
    place_adjoint: wp.array[Place],
    values_adjoint: wp.array[Three],  # zero before
):
    k = wp.tid()
    pixel = owner[k]
    entries = table[pixel[1]]
    first = page * pixel[0]
    w = place[k]
    by_place = Three()
    for g in range(groups):
        i = first + groups * entries[0] + g
        j = first + groups * entries[1] + g
        m = first + groups * entries[2] + g
        along = mixed_adjoint[groups * k + g]
        by_place += Three(wp.dot(along, values[i]), wp.dot(along, values[j]), wp.dot(along, values[m]))
        wp.atomic_add(values_adjoint, i, along * w[0])
        wp.atomic_add(values_adjoint, j, along * w[1])
        wp.atomic_add(values_adjoint, m, along * w[2])
    place_adjoint[k] = Place(by_place[0], by_place[1], by_place[2], Scalar(0.0))
