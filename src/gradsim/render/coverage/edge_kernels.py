# pyright: reportInvalidTypeForm=false
"""Edges over which layers of a mesh change, and their pieces in pixels: a template for `engine.lanes`.

The silhouette edges of a mesh are those between a face that turns to the camera and one that turns away, and those of
its border. Over each of them the number of faces in front of each other, its layers, changes: by 2, and by 1.
"""

import warp as wp

from gradsim.engine.lanes import Scalar

Point = wp.types.vector(2, Scalar)  # x to the right, y down [px]
Piece = wp.types.vector(4, Scalar)  # x, y of the left end, x, y of the right end [px]


@wp.struct
class Edge:
    first: int  # vertex at the top
    second: int  # vertex at the bottom
    top: Point
    bottom: Point
    normal: Point  # to the right of the way down, as long as the edge [px]
    axis: Point  # (p - top) · axis is the fraction of the edge at p [1/px]
    slope: Scalar  # dx/dy
    rise: Scalar  # dy/dx
    sign: Scalar  # 1 where the body is to the right of the edge, else -1


@wp.func
def face_camera(screen: wp.array2d[Point], body: int, faces: wp.array[wp.vec3i], front: wp.array2d[wp.bool]):
    """Mark the faces that turn to the camera: counter-clockwise to the eye, and y points down.

    Each face is judged once, so the outline is closed whatever rounding does to a face seen from its edge.
    """
    for k in range(faces.shape[0]):
        a = screen[body, faces[k][0]]
        u = screen[body, faces[k][1]] - a
        v = screen[body, faces[k][2]] - a
        front[body, k] = u[0] * v[1] - u[1] * v[0] < Scalar(0.0)


@wp.func
def layer_step(front: wp.array2d[wp.bool], body: int, face: int):
    """Layers that a face has on its left more than on its right, going along its edge; -1: no face."""
    if face < 0:
        return 0
    return wp.where(front[body, face], 1, -1)


@wp.func
def jump(edges: wp.array[wp.vec4i], front: wp.array2d[wp.bool], body: int, k: int):
    """Layers on the left of an edge more than on its right; of rows with the same ends, all on the first of them."""
    a = edges[k][0]
    b = edges[k][1]
    if k > 0 and edges[k - 1][0] == a and edges[k - 1][1] == b:
        return 0
    total = wp.int32(0)
    m = wp.int32(k)
    while m < edges.shape[0] and edges[m][0] == a and edges[m][1] == b:
        total += layer_step(front, body, edges[m][2]) - layer_step(front, body, edges[m][3])
        m += 1
    return total


@wp.func
def silhouette(edges: wp.array[wp.vec4i], front: wp.array2d[wp.bool], convex: bool, body: int, page: int, outline: wp.array2d[int]):  # fmt: skip
    """List the edges over which layers change; returns their number."""
    count = wp.int32(0)
    for k in range(edges.shape[0]):
        if convex:
            if front[body, edges[k][2]] != front[body, edges[k][3]]:
                outline[page, count] = k
                count += 1
        elif jump(edges, front, body, k) != 0:
            outline[page, count] = k
            count += 1
    return count


@wp.func
def straight(edge: Edge):
    """An edge between its top and its bottom."""
    d = edge.bottom - edge.top
    edge.normal = Point(d[1], -d[0])
    square = wp.dot(d, d)
    if square > Scalar(0.0):
        edge.axis = d / square
    if d[1] != Scalar(0.0):
        edge.slope = d[0] / d[1]
    if d[0] != Scalar(0.0):
        edge.rise = d[1] / d[0]
    return edge


@wp.func
def outline_edge(screen: wp.array2d[Point], body: int, edges: wp.array[wp.vec4i], k: int, convex: bool, front: wp.array2d[wp.bool]):  # fmt: skip
    """An edge over which layers change. In a face in front it has the body on its left to the eye."""
    ends = edges[k]
    edge = Edge()
    edge.first = ends[0]
    edge.second = ends[1]
    inner = True
    if convex:
        inner = front[body, ends[2]]
    else:
        inner = jump(edges, front, body, k) > 0
    edge.sign = wp.where(inner, Scalar(1.0), Scalar(-1.0))
    if screen[body, ends[1]][1] < screen[body, ends[0]][1]:
        edge.first = ends[1]
        edge.second = ends[0]
        edge.sign = -edge.sign
    edge.top = screen[body, edge.first]
    edge.bottom = screen[body, edge.second]
    return straight(edge)


@wp.func
def cell(x: Scalar, last: int):
    """Row or column of x, between -1 (all that comes before the image) and last."""
    return wp.min(int(wp.floor(wp.clamp(x, Scalar(-1.0), Scalar(last + 1)))), last)


@wp.func
def x_at(edge: Edge, y: Scalar):
    x = edge.top[0] + edge.slope * (y - edge.top[1])
    return wp.clamp(x, wp.min(edge.top[0], edge.bottom[0]), wp.max(edge.top[0], edge.bottom[0]))


@wp.func
def in_row(edge: Edge, row: int):
    """The piece of an edge in a row that it meets."""
    y0 = wp.max(edge.top[1], Scalar(row))
    y1 = wp.min(edge.bottom[1], Scalar(row + 1))
    x0 = x_at(edge, y0)
    x1 = x_at(edge, y1)
    if y1 == edge.bottom[1]:
        x1 = edge.bottom[0]
    if x0 <= x1:
        return Piece(x0, y0, x1, y1)
    return Piece(x1, y1, x0, y0)


@wp.func
def y_at(edge: Edge, piece: Piece, x: Scalar):
    y = piece[1] + edge.rise * (x - piece[0])
    return wp.clamp(y, wp.min(piece[1], piece[3]), wp.max(piece[1], piece[3]))


@wp.func
def in_column(edge: Edge, piece: Piece, column: int):
    """The part in a column of the piece of a row; column -1 is all that is left of the image."""
    left = Scalar(column)
    right = Scalar(column + 1)
    x0 = piece[0]
    y0 = piece[1]
    x1 = piece[2]
    y1 = piece[3]
    if column >= 0 and x0 < left:
        x0 = left
        y0 = y_at(edge, piece, left)
    if x1 > right:
        x1 = right
        y1 = y_at(edge, piece, right)
    return Piece(x0, y0, x1, y1)
