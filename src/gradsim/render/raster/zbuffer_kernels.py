# pyright: reportInvalidTypeForm=false
"""Nearest triangle at every pixel centre (z-buffer): a template for `engine.lanes`.

With homogeneous pixels h_i = K (R x_i + t) = (u_i z_i, v_i z_i, z_i) of the corners and the centre p of a pixel, let
q_i = (h_i.x - p.x z_i, h_i.y - p.y z_i). The point of the triangle's plane that the pixel sees is Σ b_i x_i with

    Σ b_i q_i = 0,  Σ b_i = 1   ⇒   b_i = e_i / Σ e,   e_i = q_j × q_k,   z = Σ b_i z_i

which is perspective-correct and holds for triangles that reach behind the camera too, so nothing has to be clipped
(Olano & Greer 1997). As functions of the pixel the e_i are linear.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Corner = wp.types.vector(3, Scalar)  # homogeneous pixel (u z, v z, z) [px m, px m, m]
Box = wp.types.vector(4, Scalar)  # left, top, right, bottom [px]
Span = wp.types.vector(2, Scalar)  # columns

MAX_COORDINATE = wp.constant(Scalar(1.0e9))  # [px] beyond it, whole numbers overflow
EDGE = wp.constant(Scalar(1.0e-6))  # barycentrics that may be missing, so that neighbours leave no gap between them
MIN_SPAN_WIDTH = wp.constant(8)  # [px] width from which the span of a triangle is computed for each row
MAX_KEY = wp.constant(wp.int64(0x7FFFFFFF))

NONE, BACK, FRONT = wp.constant(0), wp.constant(1), wp.constant(2)  # faces to leave out


@wp.struct
class Triangle:
    e0: Corner  # e_i = e_i · (x - left centre, y - top centre, 1), with the sign of the determinant taken out
    e1: Corner
    e2: Corner
    volume: Scalar  # |det(h_0, h_1, h_2)|; z = volume / Σ e
    left: int
    top: int
    right: int  # one after the last
    bottom: int


@wp.func
def first_pixel(x: Scalar, size: int):
    """The first pixel whose centre is not before x."""
    return int(wp.ceil(wp.clamp(x - Scalar(0.5), Scalar(0.0), Scalar(size))))


@wp.func
def after_pixel(x: Scalar, size: int):
    """One after the last pixel whose centre is not beyond x."""
    return int(wp.floor(wp.clamp(x - Scalar(0.5), Scalar(-1.0), Scalar(size - 1)))) + 1


@wp.func
def relative(h: Corner, x: Scalar, y: Scalar):
    return Corner(h[0] - x * h[2], h[1] - y * h[2], h[2])


@wp.func
def extent(a: Corner, b: Corner, c: Corner, near: Scalar):
    """Left, top, right and bottom [px] of what a triangle shows beyond the near plane; left > right if nothing."""
    if a[2] >= near and b[2] >= near and c[2] >= near:
        a_x = a[0] / a[2]
        a_y = a[1] / a[2]
        b_x = b[0] / b[2]
        b_y = b[1] / b[2]
        c_x = c[0] / c[2]
        c_y = c[1] / c[2]
        return Box(wp.min(a_x, wp.min(b_x, c_x)), wp.min(a_y, wp.min(b_y, c_y)), wp.max(a_x, wp.max(b_x, c_x)), wp.max(a_y, wp.max(b_y, c_y)))  # fmt: skip
    box = Box(MAX_COORDINATE, MAX_COORDINATE, -MAX_COORDINATE, -MAX_COORDINATE)
    for i in range(3):
        h = wp.where(i == 0, a, wp.where(i == 1, b, c))
        after = wp.where(i == 0, b, wp.where(i == 1, c, a))
        for k in range(2):
            p = h
            visible = h[2] >= near
            if k == 1:
                visible = (h[2] >= near) != (after[2] >= near)
                if visible:
                    p = h + (after - h) * ((near - h[2]) / (after[2] - h[2]))
            if visible:
                x = p[0] / p[2]
                y = p[1] / p[2]
                box = Box(wp.min(box[0], x), wp.min(box[1], y), wp.max(box[2], x), wp.max(box[3], y))
    return box


@wp.func
def prepare(a: Corner, b: Corner, c: Corner, near: Scalar, cull: int, height: int, width: int):
    """The pixels that a triangle may be triangle in, none if it is not triangle, and its edge functions there."""
    triangle = Triangle()
    box = extent(a, b, c, near)
    low_x = box[0]
    low_y = box[1]
    high_x = box[2]
    high_y = box[3]
    # negated, so that what is not a number leaves
    if not (low_x <= high_x and low_y <= high_y):
        return triangle
    triangle.left = first_pixel(low_x, width)
    triangle.right = after_pixel(high_x, width)
    triangle.top = first_pixel(low_y, height)
    triangle.bottom = after_pixel(high_y, height)
    x = Scalar(triangle.left) + Scalar(0.5)
    y = Scalar(triangle.top) + Scalar(0.5)
    p = relative(a, x, y)
    q = relative(b, x, y)
    r = relative(c, x, y)
    edge_a = wp.cross(q, r)
    volume = wp.dot(p, edge_a)
    # triangle from outside, corners run counter-clockwise to the eye, and y points down
    front = volume < Scalar(0.0)
    if not wp.abs(volume) > Scalar(0.0) or (cull == BACK and not front) or (cull == FRONT and front):
        triangle.right = triangle.left
        return triangle
    side = wp.where(front, Scalar(-1.0), Scalar(1.0))
    triangle.volume = side * volume
    triangle.e0 = side * edge_a
    triangle.e1 = side * wp.cross(r, p)
    triangle.e2 = side * wp.cross(p, q)
    return triangle


@wp.func
def between(slope: Scalar, value: Scalar, span: Span):
    """The part of a span of columns where value + slope · column may be at least 0: a column more at both ends."""
    if slope == Scalar(0.0):
        return span
    root = -value / slope
    if slope > Scalar(0.0):
        return Span(wp.clamp(root - Scalar(1.0), span[0], wp.max(span[0], span[1])), span[1])
    return Span(span[0], wp.clamp(root + Scalar(1.0), wp.min(span[0], span[1]), span[1]))


@wp.kernel(enable_backward=False)
def nearest(
    clip: wp.array2d[Corner],  # (images, vertices)
    faces: wp.array[wp.vec3i],
    near: Scalar,  # [m]
    cull: int,
    # out
    key: wp.array3d[
        wp.int64
    ],  # (images, rows, columns): nearness above, face below; 0 before and where nothing is triangle
):
    thread = wp.tid()
    image = thread / faces.shape[0]
    face = thread - image * faces.shape[0]
    corners = faces[face]
    triangle = prepare(clip[image, corners[0]], clip[image, corners[1]], clip[image, corners[2]], near, cull, key.shape[1], key.shape[2])  # fmt: skip
    if triangle.right <= triangle.left:
        return
    closest = triangle.volume / near
    thinness = Scalar(1.0) / triangle.volume
    for row in range(triangle.top, triangle.bottom):
        dy = Scalar(row - triangle.top)
        a = triangle.e0[1] * dy + triangle.e0[2]
        b = triangle.e1[1] * dy + triangle.e1[2]
        c = triangle.e2[1] * dy + triangle.e2[2]
        span = Span(Scalar(0.0), Scalar(triangle.right - triangle.left))
        if triangle.right - triangle.left > MIN_SPAN_WIDTH:
            span = between(triangle.e0[0], a, between(triangle.e1[0], b, between(triangle.e2[0], c, span)))
        for column in range(triangle.left + int(span[0]), wp.min(triangle.right, triangle.left + int(span[1]) + 1)):
            dx = Scalar(column - triangle.left)
            e0 = a + triangle.e0[0] * dx
            e1 = b + triangle.e1[0] * dx
            e2 = c + triangle.e2[0] * dx
            total = e0 + e1 + e2
            least = wp.min(e0, wp.min(e1, e2))
            if total > Scalar(0.0) and least >= -EDGE * total and total <= closest:
                # 1 / z: what is larger is nearer, and the bits of positive floats are in their order
                rank = wp.int64(wp.cast(wp.float32(total * thinness), wp.int32))
                wp.atomic_max(key, image, row, column, (rank << wp.int64(32)) | (MAX_KEY - wp.int64(face)))
