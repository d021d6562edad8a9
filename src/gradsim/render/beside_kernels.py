# ruff: noqa: F821
"""The nearest triangle of pixels that bodies touch beside their centre: a template for `engine.lanes`.

Left open for `specialise`: reach, to_border, centre of `triangle_kernels.py`.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Corner = wp.types.vector(3, Scalar)  # u, v [px] and depth [m]

CORNER = wp.constant(Scalar(0.7072))  # [px] from the centre of a pixel to its corner, and a little
TURNED = wp.constant(Scalar(1.001))  # of two faces that share an edge, the one that shows its outer side is nearer
LEAST = wp.constant(Scalar(1.0e-6))  # [px²] the same where both are at no distance
HIGHEST = wp.constant(wp.int64(0x7FFFFFFF))


@wp.kernel(enable_backward=False)
def beside(
    screen: wp.array2d[Corner],  # (images, vertices)
    faces: wp.array[wp.vec3i],
    wanted: wp.array3d[wp.bool],  # the pixels
    near: Scalar,  # [m]
    cull: int,
    # out
    key: wp.array3d[wp.int64],  # distance above, face below; 0 before and where there is no triangle
):
    thread = wp.tid()
    image = thread / faces.shape[0]
    face = thread - image * faces.shape[0]
    a = screen[image, faces[face][0]]
    b = screen[image, faces[face][1]]
    c = screen[image, faces[face][2]]
    back = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) >= Scalar(0.0)
    box = reach(a, b, c, CORNER, near, cull, key.shape[1], key.shape[2])
    for row in range(box.top, box.bottom):
        for column in range(box.left, box.right):
            if wanted[image, row, column]:
                square = to_border(centre(row, column), a, b, c).square
                if square <= CORNER * CORNER:
                    if back:
                        square = TURNED * square + LEAST
                    rank = wp.int64(wp.cast(wp.float32(square), wp.int32))
                    mark = ((HIGHEST - rank) << wp.int64(32)) | (HIGHEST - wp.int64(face))
                    wp.atomic_max(key, image, row, column, mark)
