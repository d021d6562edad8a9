"""Every operator of `engine.lanes` once, as a template: results by the names of `test_lanes.EXPECTED`, in its order."""

import warp as wp

from gradsim.engine.lanes import *

LAST_BUT_TWO = globals().get("LAST_BUT_TWO", 0)


@wp.kernel(enable_backward=not DUAL)
def operators(
    r: wp.array2d[Real],
    u: wp.array2d[Vec3],
    m: wp.array2d[Mat3],
    q: wp.array2d[Quat],
    shared: wp.array[Scalar],
    # out
    reals: wp.array2d[Real],
    vectors: wp.array2d[Vec3],
    matrices: wp.array2d[Mat3],
    quaternions: wp.array2d[Quat],
):
    i = wp.tid()
    a = r[i, 0]
    b = r[i, 1]
    c = r[i, 2]
    x = u[i, 0]
    y = u[i, 1]
    A = m[i, 0]
    B = m[i, 1]
    p = q[i, 0]
    s = q[i, 1]

    reals[i, 0] = a + b
    reals[i, 1] = a - b
    reals[i, 2] = neg(a)
    reals[i, 3] = a * b
    reals[i, 4] = a / b
    reals[i, 5] = a * a / a
    reals[i, 6] = sqrt(abs(a) + 0.5)
    reals[i, 7] = sin(a)
    reals[i, 8] = cos(a)
    reals[i, 9] = min(a, b)
    reals[i, 10] = max(a, b)
    reals[i, 11] = max(a, a)
    reals[i, 12] = where(less(a, b), a * c, b)
    reals[i, 13] = dot(x, y)
    reals[i, 14] = dot(x, x)
    reals[i, 15] = qdot(p, s)
    reals[i, 16] = a * spread(shared[0])
    reals[i, 17] = zero(0) - a
    reals[i, 18] = a + 0.5
    reals[i, 19] = 0.5 - a
    reals[i, 20] = a - 0.5
    reals[i, 21] = 0.75 + a
    reals[i, 22] = 0.25 * a
    reals[i, 23] = a * 0.25
    reals[i, 24] = 2.0 / a
    reals[i, 25] = a / 4.0
    reals[i, 26] = spread(Scalar(0.1)) * a
    reals[i, 27] = a * spread(Scalar(1.0) / Scalar(3.0))
    reals[i, 28] = exp(a * b)
    reals[i, 29] = log1p(abs(a) / (abs(a) + 1.0))
    reals[i, 30] = det(A)
    reals[i, 31] = ddot(A, B)

    vectors[i, 0] = x + y
    vectors[i, 1] = x - y
    vectors[i, 2] = neg(x)
    vectors[i, 3] = x * a
    vectors[i, 4] = cross(x, y)
    vectors[i, 5] = cross(x, cross(y, x))
    vectors[i, 6] = A * x
    vectors[i, 7] = rotate(p, x)
    vectors[i, 8] = unrotate(p, x)
    vectors[i, 9] = rotate(p, vector_part(p))
    vectors[i, 10] = vec3(a, b, a)
    vectors[i, 11] = where(less(b, a), x, y)
    vectors[i, 12] = zero3(0) - x
    vectors[i, 13] = column0(A) + column1(B) - column2(A)

    matrices[i, 0] = A + B
    matrices[i, 1] = A - B
    matrices[i, 2] = neg(A)
    matrices[i, 3] = A * a
    matrices[i, 4] = where(less(a, b), A, B)
    matrices[i, 5] = A * B
    matrices[i, 6] = transpose(A)
    matrices[i, 7] = cofactor(A)
    matrices[i, 8] = columns(x, y, x + y)
    matrices[i, 9] = outer(x, y)
    matrices[i, 10] = A * A

    quaternions[i, 0] = p + s
    quaternions[i, 1] = p - s
    quaternions[i, 2] = neg(p)
    quaternions[i, 3] = p * a
    quaternions[i, 4] = p * s
    quaternions[i, 5] = p * p
    quaternions[i, 6] = quat(x, a)
    quaternions[i, 7] = where(less(a, b), p, s)


@wp.kernel(enable_backward=False)
def any_less(
    r: wp.array2d[Real],
    # out
    found: wp.array[int],
):
    i = wp.tid()
    found[i] = 0
    if any_lane(less(r[i, 0], r[i, 1])):
        found[i] = 1


if not DUAL:
    from gradsim.engine.lanes import lane, put, total

    @wp.kernel
    def single_lanes(
        r: wp.array2d[Real],
        # out
        swapped: wp.array[Real],  # b, but a where the lane is the third one from the end
        sums: wp.array[Scalar],
    ):
        i = wp.tid()
        k = LAST_BUT_TWO
        swapped[i] = put(r[i, 1], k, lane(r[i, 0], k))
        sums[i] = total(r[i, 2])
