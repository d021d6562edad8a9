# pyright: reportInvalidTypeForm=false
"""Sides of the triangles of a view, and volumes of its parts: a template for `engine.lanes`."""

import warp as wp

from gradsim.engine.lanes import Scalar

Corner = wp.types.vector(3, Scalar)  # homogeneous pixel (u z, v z, z), or position [m]
Double = wp.types.vector(3, wp.float64)  # products of three nearly cancel


@wp.func
def wide(p: Corner):
    return Double(wp.float64(p[0]), wp.float64(p[1]), wp.float64(p[2]))


@wp.kernel(enable_backward=False)
def show_sides(
    clip: wp.array2d[Corner],  # (images, vertices)
    faces: wp.array[wp.vec3i],
    # out
    front: wp.array2d[wp.bool],  # (images, faces): whether the outer side is visible
):
    thread = wp.tid()
    image = thread / faces.shape[0]
    face = thread - image * faces.shape[0]
    corners = faces[face]
    a = wide(clip[image, corners[0]])
    b = wide(clip[image, corners[1]])
    c = wide(clip[image, corners[2]])
    # seen from outside, corners run counter-clockwise to the eye, and y points down
    front[image, face] = wp.dot(a, wp.cross(b, c)) < wp.float64(0.0)


@wp.kernel(enable_backward=False)
def add_volumes(
    points: wp.array2d[Corner],  # (images, vertices) [m]
    faces: wp.array[wp.vec3i],
    part_of: wp.array[int],
    # out
    volumes: wp.array[wp.float64],  # six times that of each part in the first image [m³]; zero before
):
    corners = faces[wp.tid()]
    origin = wide(points[0, faces[0][0]])
    a = wide(points[0, corners[0]]) - origin
    b = wide(points[0, corners[1]]) - origin
    c = wide(points[0, corners[2]]) - origin
    wp.atomic_add(volumes, part_of[wp.tid()], wp.dot(a, wp.cross(b, c)))
