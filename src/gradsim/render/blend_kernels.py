"""Antialiased coverage of closed meshes that need not be convex, and its derivatives: a template for `engine.lanes`.

    1. `find`: a pixel is inside where a face in front covers its centre.
    2. Between two neighbours, one inside and one not, the outermost crossing of a silhouette edge with the line through
       their centres is picked; steep edges serve neighbours in a row, flat ones neighbours in a column.
    3. `blend`: the body ends at the crossing, at the distance d of the inner centre. The outer pixel gains d - ½ where
       that is positive, else the inner one loses ½ - d: linear in d, and continuous when d passes 0, ½ and 1.

The idea is that of analytic antialiasing (Laine et al. 2020, Modular Primitives for High-Performance Differentiable
Rendering, §3.6). A part thinner than a pixel that holds no centre is not drawn.

Left open, bound to those of `coverage_kernels`: Point, Edge, bounds, is_seen, face_camera, outline_edge, x_at, cell.
"""
# ruff: noqa: F821

import warp as wp

from gradsim.engine.lanes import Scalar


@wp.struct
class Blend:
    row: int  # of the pixel that changes; outside the image when there is none
    column: int
    change: Scalar  # of its coverage
    fraction: Scalar  # of the edge at the crossing
    gradient: Point  # of the change with the point of the edge at the crossing [1/px]


@wp.func
def first_centre(x: Scalar, count: int):
    """First of `count` pixel centres -½, ½, 3/2, ... that is not before x."""
    return int(wp.ceil(wp.clamp(x + Scalar(0.5), Scalar(0.0), Scalar(count))))


@wp.func
def y_on(edge: Edge, x: Scalar):
    y = edge.top[1] + edge.rise * (x - edge.top[0])
    return wp.clamp(y, edge.top[1], edge.bottom[1])


@wp.func
def first_cell(x: Scalar, count: int):
    return wp.max(cell(x + Scalar(0.5), count - 1), 0)


@wp.func
def end_cell(x: Scalar, count: int):
    return cell(x + Scalar(0.5), count - 1) + 1


@wp.func
def count_layers(screen: wp.array2d[Point], body: int, edges: wp.array[wp.vec4i], front: wp.array2d[wp.bool], layers: wp.array3d[int], box: Box):  # fmt: skip
    """Number of faces in front at each pixel centre, from where the silhouette crosses the rows of centres."""
    height = layers.shape[1]
    width = layers.shape[2]
    for k in range(edges.shape[0]):
        if front[body, edges[k][2]] == front[body, edges[k][3]]:
            continue
        edge = outline_edge(screen, body, edges[k], front)
        for row in range(first_centre(edge.top[1], height), first_centre(edge.bottom[1], height)):
            column = cell(x_at(edge, Scalar(row) - Scalar(0.5)) + Scalar(0.5), width - 1) + 1
            if column < width:
                layers[body, row, column] = layers[body, row, column] + int(edge.sign)
    for row in range(first_centre(box[1], height), first_centre(box[3], height)):
        total = wp.int32(0)
        for column in range(first_cell(box[0], width), wp.min(end_cell(box[2], width) + 1, width)):
            total += layers[body, row, column]
            layers[body, row, column] = total


@wp.func
def crossing(edge: Edge, axis: int, line: int):
    """Where an edge crosses a row (axis 0) or column (axis 1) of pixel centres, in pixels from centre 0."""
    if axis == 0:
        return x_at(edge, Scalar(line) - Scalar(0.5)) + Scalar(0.5)
    return y_on(edge, Scalar(line) - Scalar(0.5)) + Scalar(0.5)


@wp.func
def pick(screen: wp.array2d[Point], body: int, edges: wp.array[wp.vec4i], front: wp.array2d[wp.bool], k: int, axis: int, line: int, edge: Edge, layers: wp.array3d[int], picks: wp.array4d[int]):  # fmt: skip
    """Let edge k stand for the two pixels between which it crosses a line of centres, if none is further out."""
    place = crossing(edge, axis, line)
    at = cell(place, layers.shape[2 - axis] - 1)
    if at < 0 or at > layers.shape[2 - axis] - 2:
        return
    row = line
    column = at
    entering = edge.sign  # positive where the body lies behind the crossing
    if axis == 1:
        row = at
        column = line
        entering = edge.sign * edge.normal[1]
    inside = layers[body, row, column] > 0
    if inside == (layers[body, row + axis, column + 1 - axis] > 0) or inside == (entering > Scalar(0.0)):
        return
    chosen = picks[body, axis, row, column]
    if chosen != 0:
        rival = crossing(outline_edge(screen, body, edges[chosen - 1], front), axis, line)
        if (rival > place) == inside:
            return
    picks[body, axis, row, column] = k + 1


@wp.kernel(enable_backward=False)
def find(
    screen: wp.array2d[Point],  # (bodies, vertices)
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec4i],
    # out: with one pixel more on each side of the image
    front: wp.array2d[wp.bool],  # (bodies, faces)
    layers: wp.array3d[int],  # (bodies, rows + 2, columns + 2), zero before
    picks: wp.array4d[int],  # (bodies, 2, rows + 2, columns + 2) edge between a pixel and the next, from 1; zero before
):
    body = wp.tid()
    height = layers.shape[1]
    width = layers.shape[2]
    box = bounds(screen, body)
    if not is_seen(box, height - 2, width - 2):
        return
    face_camera(screen, body, faces, front)
    count_layers(screen, body, edges, front, layers, box)
    for k in range(edges.shape[0]):
        if front[body, edges[k][2]] == front[body, edges[k][3]]:
            continue
        edge = outline_edge(screen, body, edges[k], front)
        if edge.normal[0] >= wp.abs(edge.normal[1]):
            for row in range(first_centre(edge.top[1], height), first_centre(edge.bottom[1], height)):
                pick(screen, body, edges, front, k, 0, row, edge, layers, picks)
        else:
            left = wp.min(edge.top[0], edge.bottom[0])
            right = wp.max(edge.top[0], edge.bottom[0])
            for column in range(first_centre(left, width), first_centre(right, width)):
                pick(screen, body, edges, front, k, 1, column, edge, layers, picks)


@wp.func
def blend_at(edge: Edge, axis: int, row: int, column: int, inside: bool):
    """How a picked edge changes one of the two pixels that it separates; `inside`: whether the first is."""
    blend = Blend()
    line = row
    at = column
    speed = edge.normal[0]  # of the crossing along the line is that of the edge · normal / speed
    if axis == 1:
        line = column
        at = row
        speed = edge.normal[1]
    place = crossing(edge, axis, line) - Scalar(at)
    if not inside:
        place = Scalar(1.0) - place
        speed = -speed
    blend.change = place - Scalar(0.5)
    blend.gradient = edge.normal / speed
    if axis == 0:
        y = Scalar(line) - Scalar(0.5)
        blend.fraction = (y - edge.top[1]) / (edge.bottom[1] - edge.top[1])
    else:
        x = Scalar(line) - Scalar(0.5)
        blend.fraction = (x - edge.top[0]) / (edge.bottom[0] - edge.top[0])
    blend.row = row - 1
    blend.column = column - 1
    if inside == (blend.change > Scalar(0.0)):  # the second pixel is the one that changes
        blend.row += axis
        blend.column += 1 - axis
    return blend


@wp.func
def is_in(blend: Blend, height: int, width: int):
    return blend.row >= 0 and blend.row < height and blend.column >= 0 and blend.column < width


@wp.kernel(enable_backward=False)
def blend(
    screen: wp.array2d[Point],
    tangent: wp.array4d[Point],  # (worlds, unknowns, frames, vertices)
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],
    layers: wp.array3d[int],
    picks: wp.array4d[int],
    # out
    image: wp.array3d[Scalar],  # (bodies, rows, columns), zero before
    image_tangent: wp.array4d[Scalar],  # (bodies, rows, columns, unknowns), zero before
):
    body = wp.tid()
    height = image.shape[1]
    width = image.shape[2]
    world = body / tangent.shape[2]
    frame = body % tangent.shape[2]
    box = bounds(screen, body)
    if not is_seen(box, height, width):
        return
    for row in range(first_cell(box[1], height + 2), end_cell(box[3], height + 2)):
        for column in range(first_cell(box[0], width + 2), end_cell(box[2], width + 2)):
            if layers[body, row, column] > 0 and row > 0 and row <= height and column > 0 and column <= width:
                image[body, row - 1, column - 1] += Scalar(1.0)
            for axis in range(2):
                k = picks[body, axis, row, column]
                if k == 0:
                    continue
                edge = outline_edge(screen, body, edges[k - 1], front)
                b = blend_at(edge, axis, row, column, layers[body, row, column] > 0)
                if is_in(b, height, width):
                    image[body, b.row, b.column] += b.change
                    for u in range(tangent.shape[1]):
                        dt = tangent[world, u, frame, edge.first]
                        db = tangent[world, u, frame, edge.second]
                        change = wp.dot(dt * (Scalar(1.0) - b.fraction) + db * b.fraction, b.gradient)
                        image_tangent[body, b.row, b.column, u] += change
    for row in range(wp.max(cell(box[1], height - 1) - 1, 0), wp.min(cell(box[3], height - 1) + 2, height)):
        for column in range(wp.max(cell(box[0], width - 1) - 1, 0), wp.min(cell(box[2], width - 1) + 2, width)):
            value = image[body, row, column]
            if value <= Scalar(0.0) or value >= Scalar(1.0):
                image[body, row, column] = wp.clamp(value, Scalar(0.0), Scalar(1.0))
                for u in range(tangent.shape[1]):
                    image_tangent[body, row, column, u] = Scalar(0.0)


@wp.kernel(enable_backward=False)
def pull_back(
    screen: wp.array2d[Point],
    image: wp.array3d[Scalar],
    image_adjoint: wp.array3d[Scalar],
    edges: wp.array[wp.vec4i],
    front: wp.array2d[wp.bool],
    layers: wp.array3d[int],
    picks: wp.array4d[int],
    # out
    screen_adjoint: wp.array2d[Point],  # zero before
):
    """Adjoint of `blend`."""
    body = wp.tid()
    height = image.shape[1]
    width = image.shape[2]
    box = bounds(screen, body)
    if not is_seen(box, height, width):
        return
    for row in range(first_cell(box[1], height + 2), end_cell(box[3], height + 2)):
        for column in range(first_cell(box[0], width + 2), end_cell(box[2], width + 2)):
            for axis in range(2):
                k = picks[body, axis, row, column]
                if k == 0:
                    continue
                edge = outline_edge(screen, body, edges[k - 1], front)
                b = blend_at(edge, axis, row, column, layers[body, row, column] > 0)
                if is_in(b, height, width):
                    value = image[body, b.row, b.column]
                    if value > Scalar(0.0) and value < Scalar(1.0):
                        g = b.gradient * image_adjoint[body, b.row, b.column]
                        screen_adjoint[body, edge.first] += g * (Scalar(1.0) - b.fraction)
                        screen_adjoint[body, edge.second] += g * b.fraction
