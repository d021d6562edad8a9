"""What lies nearest behind every pixel centre, and where on its triangle: a template for `engine.lanes`.

With homogeneous pixels h_i = K (R x_i + t) = (u_i z_i, v_i z_i, z_i) of the corners and the centre p of a pixel, let
q_i = (h_i.x - p.x z_i, h_i.y - p.y z_i). The point of the triangle's plane that the pixel sees is Σ b_i x_i with

    Σ b_i q_i = 0,  Σ b_i = 1   ⇒   b_i = e_i / Σ e,   e_i = q_j × q_k,   z = Σ b_i z_i

which is perspective-correct and holds for triangles that reach behind the camera too, so nothing has to be clipped
(Olano & Greer 1997). As functions of the pixel the e_i are linear.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Corner = wp.types.vector(3, Scalar)  # homogeneous pixel (u z, v z, z) [px m, px m, m]
Place = wp.types.vector(4, Scalar)  # barycentrics b_0, b_1, b_2 and depth z [m]

FAR = wp.constant(Scalar(1.0e9))  # [px] beyond it, whole numbers overflow
EDGE = wp.constant(Scalar(1.0e-6))  # barycentrics that may be missing, so that neighbours leave no gap between them
HIGHEST = wp.constant(wp.int64(0x7FFFFFFF))

NONE, BACK, FRONT = wp.constant(0), wp.constant(1), wp.constant(2)  # which faces are left out


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
def prepare(a: Corner, b: Corner, c: Corner, near: Scalar, cull: int, height: int, width: int):
    """The pixels that a triangle may be seen in, none if it is not seen, and its edge functions there."""
    seen = Triangle()
    low_x = FAR
    low_y = FAR
    high_x = -FAR
    high_y = -FAR
    for i in range(3):
        h = wp.where(i == 0, a, wp.where(i == 1, b, c))
        after = wp.where(i == 0, b, wp.where(i == 1, c, a))
        for k in range(2):
            p = h
            drawn = h[2] >= near
            if k == 1:
                drawn = (h[2] >= near) != (after[2] >= near)
                if drawn:
                    p = h + (after - h) * ((near - h[2]) / (after[2] - h[2]))
            if drawn:
                x = p[0] / p[2]
                y = p[1] / p[2]
                low_x = wp.min(low_x, x)
                low_y = wp.min(low_y, y)
                high_x = wp.max(high_x, x)
                high_y = wp.max(high_y, y)
    # negated, so that what is not a number leaves
    if not (low_x <= high_x and low_y <= high_y):
        return seen
    seen.left = first_pixel(low_x, width)
    seen.right = after_pixel(high_x, width)
    seen.top = first_pixel(low_y, height)
    seen.bottom = after_pixel(high_y, height)
    x = Scalar(seen.left) + Scalar(0.5)
    y = Scalar(seen.top) + Scalar(0.5)
    p = relative(a, x, y)
    q = relative(b, x, y)
    r = relative(c, x, y)
    volume = wp.dot(p, wp.cross(q, r))
    # seen from outside, corners run counter-clockwise to the eye, and y points down
    front = volume < Scalar(0.0)
    if not wp.abs(volume) > Scalar(0.0) or (cull == BACK and not front) or (cull == FRONT and front):
        seen.right = seen.left
        return seen
    side = wp.where(front, Scalar(-1.0), Scalar(1.0))
    seen.volume = side * volume
    seen.e0 = side * wp.cross(q, r)
    seen.e1 = side * wp.cross(r, p)
    seen.e2 = side * wp.cross(p, q)
    return seen


@wp.kernel(enable_backward=False)
def nearest(
    clip: wp.array2d[Corner],  # (images, vertices)
    faces: wp.array[wp.vec3i],
    near: Scalar,  # [m]
    cull: int,
    # out
    key: wp.array3d[wp.int64],  # (images, rows, columns): depth above, face below; 0 before and where nothing is seen
):
    thread = wp.tid()
    image = thread / faces.shape[0]
    face = thread - image * faces.shape[0]
    corners = faces[face]
    seen = prepare(clip[image, corners[0]], clip[image, corners[1]], clip[image, corners[2]], near, cull, key.shape[1], key.shape[2])  # fmt: skip
    for row in range(seen.top, seen.bottom):
        dy = Scalar(row - seen.top)
        a = seen.e0[1] * dy + seen.e0[2]
        b = seen.e1[1] * dy + seen.e1[2]
        c = seen.e2[1] * dy + seen.e2[2]
        for column in range(seen.left, seen.right):
            dx = Scalar(column - seen.left)
            e0 = a + seen.e0[0] * dx
            e1 = b + seen.e1[0] * dx
            e2 = c + seen.e2[0] * dx
            total = e0 + e1 + e2
            least = wp.min(e0, wp.min(e1, e2))
            if total > Scalar(0.0) and least >= -EDGE * total and seen.volume >= near * total:
                depth = wp.int64(wp.cast(wp.float32(seen.volume / total), wp.int32))
                mark = ((HIGHEST - depth) << wp.int64(32)) | (HIGHEST - wp.int64(face))
                wp.atomic_max(key, image, row, column, mark)


@wp.func
def cross(a: Corner, b: Corner):
    return a[0] * b[1] - a[1] * b[0]


@wp.kernel(enable_backward=False)
def locate(
    clip: wp.array2d[Corner],
    faces: wp.array[wp.vec3i],
    image_of: wp.array[int],  # of each fragment
    face_of: wp.array[int],
    centre: wp.array[wp.vec2i],  # column and row of its pixel
    # out
    place: wp.array[Place],
):
    k = wp.tid()
    corners = faces[face_of[k]]
    x = Scalar(centre[k][0]) + Scalar(0.5)
    y = Scalar(centre[k][1]) + Scalar(0.5)
    a = relative(clip[image_of[k], corners[0]], x, y)
    b = relative(clip[image_of[k], corners[1]], x, y)
    c = relative(clip[image_of[k], corners[2]], x, y)
    e = Corner(cross(b, c), cross(c, a), cross(a, b))
    w = e / (e[0] + e[1] + e[2])
    place[k] = Place(w[0], w[1], w[2], w[0] * a[2] + w[1] * b[2] + w[2] * c[2])


@wp.func
def back_to_pixels(adjoint: Corner, x: Scalar, y: Scalar):
    """Adjoint of `relative`."""
    return Corner(adjoint[0], adjoint[1], adjoint[2] - x * adjoint[0] - y * adjoint[1])


@wp.kernel(enable_backward=False)
def locate_adjoint(
    clip: wp.array2d[Corner],
    faces: wp.array[wp.vec3i],
    image_of: wp.array[int],
    face_of: wp.array[int],
    centre: wp.array[wp.vec2i],
    place_adjoint: wp.array[Place],
    # out
    clip_adjoint: wp.array2d[Corner],  # zero before
):
    k = wp.tid()
    image = image_of[k]
    corners = faces[face_of[k]]
    x = Scalar(centre[k][0]) + Scalar(0.5)
    y = Scalar(centre[k][1]) + Scalar(0.5)
    a = relative(clip[image, corners[0]], x, y)
    b = relative(clip[image, corners[1]], x, y)
    c = relative(clip[image, corners[2]], x, y)
    e = Corner(cross(b, c), cross(c, a), cross(a, b))
    total = e[0] + e[1] + e[2]
    w = e / total
    g = place_adjoint[k]
    by_depth = g[3]
    w_adjoint = Corner(g[0], g[1], g[2]) + by_depth * Corner(a[2], b[2], c[2])
    e_adjoint = (w_adjoint - Corner(Scalar(1.0), Scalar(1.0), Scalar(1.0)) * wp.dot(w_adjoint, w)) / total
    # e_0 = b × c, e_1 = c × a, e_2 = a × b
    to_a = Corner(e_adjoint[2] * b[1] - e_adjoint[1] * c[1], e_adjoint[1] * c[0] - e_adjoint[2] * b[0], by_depth * w[0])
    to_b = Corner(e_adjoint[0] * c[1] - e_adjoint[2] * a[1], e_adjoint[2] * a[0] - e_adjoint[0] * c[0], by_depth * w[1])
    to_c = Corner(e_adjoint[1] * a[1] - e_adjoint[0] * b[1], e_adjoint[0] * b[0] - e_adjoint[1] * a[0], by_depth * w[2])
    wp.atomic_add(clip_adjoint, image, corners[0], back_to_pixels(to_a, x, y))
    wp.atomic_add(clip_adjoint, image, corners[1], back_to_pixels(to_b, x, y))
    wp.atomic_add(clip_adjoint, image, corners[2], back_to_pixels(to_c, x, y))


@wp.kernel(enable_backward=False)
def blend(
    place: wp.array[Place],
    values: wp.array3d[Scalar],  # (images or 1, entries, channels)
    table: wp.array[wp.vec3i],  # entries of each face
    image_of: wp.array[int],
    face_of: wp.array[int],
    # out
    mixed: wp.array2d[Scalar],  # (fragments, channels)
):
    k = wp.tid()
    page = wp.where(values.shape[0] == 1, 0, image_of[k])
    entries = table[face_of[k]]
    w = place[k]
    for c in range(values.shape[2]):
        mixed[k, c] = w[0] * values[page, entries[0], c] + w[1] * values[page, entries[1], c] + w[2] * values[page, entries[2], c]  # fmt: skip


@wp.kernel(enable_backward=False)
def blend_adjoint(
    place: wp.array[Place],
    values: wp.array3d[Scalar],
    table: wp.array[wp.vec3i],
    image_of: wp.array[int],
    face_of: wp.array[int],
    mixed_adjoint: wp.array2d[Scalar],
    # out
    place_adjoint: wp.array[Place],
    values_adjoint: wp.array3d[Scalar],  # zero before
):
    k = wp.tid()
    page = wp.where(values.shape[0] == 1, 0, image_of[k])
    entries = table[face_of[k]]
    w = place[k]
    by_place = Place()
    for c in range(values.shape[2]):
        g = mixed_adjoint[k, c]
        for i in range(3):
            by_place[i] = by_place[i] + g * values[page, entries[i], c]
            wp.atomic_add(values_adjoint, page, entries[i], c, g * w[i])
    place_adjoint[k] = by_place
