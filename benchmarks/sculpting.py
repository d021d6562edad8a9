"""From a solid as a function to a coarse closed mesh: surface nets, then edges collapsed by quadric error.

A solid is a function of points (..., 3) that is negative inside, and its own mirror image in the plane y = 0. Only the half
with y >= 0 is meshed; its mirror image is added at the end, so that the mesh is exactly symmetric.

Surface nets: Gibson 1998. Quadric error: Garland and Heckbert 1997.
"""

import heapq
from collections.abc import Callable

import numpy as np

SEAM = 1e-9  # a vertex on the plane of symmetry
KEPT = 0.2  # cosine between the normals of a face before and after a collapse, at least
FACING = 0.3  # cosine between the normal of a face and the solid's own beside its middle, at least
SLIVER = 0.06  # shape of a face after a collapse, at least; 1 for an equilateral triangle

Solid = Callable[[np.ndarray], np.ndarray]


def mesh(solid: Solid, low, high, cells: int, vertices: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (n, 3) and faces (m, 3) around a solid.

    Args:
        solid: Negative inside.
        low, high: A box around it.
        cells: Of the finer grid along the longest edge of the box.
        vertices: About so many are left.
    """
    x, faces = _half(solid, np.array(low, float), np.array(high, float), cells)
    whole, strict = 2 * len(x) - (x[:, 1] < SEAM).sum(), 1.0
    while whole > vertices:
        x, faces = _collapsed(solid, x, faces, len(x) - (whole - vertices + 1) // 2, strict)
        left = 2 * len(x) - (x[:, 1] < SEAM).sum()
        whole, strict = left, strict if left < whole else strict * 0.85
    return _mirrored(x, faces)


def _half(solid: Solid, low: np.ndarray, high: np.ndarray, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Surface nets of the half with y >= 0: a vertex for each cell that the surface crosses, projected onto it."""
    h = (high - low).max() / cells
    count = np.ceil((high - low) / h).astype(int) + 2
    count[1] += 1 - count[1] % 2  # the plane of symmetry goes through the middle of cells
    first = (low + high) / 2 - count * h / 2
    first[1] = -count[1] * h / 2
    nodes = np.stack(np.meshgrid(*(first[a] + h * np.arange(count[a] + 1) for a in range(3)), indexing="ij"), -1)
    inside = solid(nodes) < 0
    corners = np.stack(
        [inside[i : i + count[0], j : j + count[1], k : k + count[2]] for i, j, k in np.ndindex(2, 2, 2)]
    )
    crossed = corners.any(0) & ~corners.all(0)
    number = np.cumsum(crossed).reshape(crossed.shape) - 1
    x = nodes[:-1, :-1, :-1][crossed] + h / 2
    for _ in range(8):
        x = _onto(solid, x, h)
    quads = []
    for axis in range(3):
        b, c = (axis + 1) % 3, (axis + 2) % 3
        here, there = (np.moveaxis(inside, axis, 0)[s] for s in (slice(None, -1), slice(1, None)))
        cut = np.moveaxis(here != there, 0, axis)
        for cell in np.argwhere(cut):
            if not (1 <= cell[b] <= count[b] - 1 and 1 <= cell[c] <= count[c] - 1):
                continue
            ring = []
            for db, dc in ((-1, -1), (0, -1), (0, 0), (-1, 0)):
                at = cell.copy()
                at[b] += db
                at[c] += dc
                ring.append(number[tuple(at)])
            quads.append(ring if inside[tuple(cell)] else ring[::-1])
    quads = np.array(quads)
    middle = np.abs(nodes[:-1, :-1, :-1][crossed][:, 1] + h / 2) < SEAM
    x[middle, 1] = 0
    kept = (x[quads][:, :, 1] > -SEAM).all(1)
    faces = np.concatenate([quads[kept][:, [0, 1, 2]], quads[kept][:, [0, 2, 3]]])
    used, faces = np.unique(faces, return_inverse=True)
    return x[used], faces.reshape(-1, 3)


def _onto(solid: Solid, x: np.ndarray, h: float) -> np.ndarray:
    """Half a Newton step towards the surface along its gradient, by at most a quarter of a cell."""
    value, slope = solid(x), _slope(solid, x, 1e-4 * h)
    step = -0.7 * value[:, None] * slope / np.maximum((slope**2).sum(-1, keepdims=True), 1e-12)
    size = np.linalg.norm(step, axis=-1, keepdims=True)
    return x + step * np.minimum(1, 0.25 * h / np.maximum(size, 1e-300))


def _slope(solid: Solid, x: np.ndarray, h: float) -> np.ndarray:
    """Gradient (n, 3) of the solid at points (n, 3), by central differences."""
    e = h * np.eye(3)[:, None]
    return ((solid(x + e) - solid(x - e)) / (2 * h)).T


def _collapsed(
    solid: Solid, x: np.ndarray, faces: np.ndarray, goal: int, strict: float
) -> tuple[np.ndarray, np.ndarray]:
    """With edges collapsed, cheapest first, until `goal` vertices are left."""
    x = x.copy()
    rows = {k: list(map(int, f)) for k, f in enumerate(faces)}
    around: list[set[int]] = [set() for _ in x]
    for k, f in rows.items():
        for v in f:
            around[v].add(k)
    quadric = np.zeros((len(x), 4, 4))
    for f in rows.values():
        n = np.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]])
        area = np.linalg.norm(n)
        plane = np.append(n, -n @ x[f[0]]) / max(area, 1e-300)
        for v in f:
            quadric[v] += area * np.outer(plane, plane)
    mirror = np.diag([1.0, -1.0, 1.0, 1.0])
    seam = np.abs(x[:, 1]) < SEAM
    for v in np.flatnonzero(seam):
        quadric[v] += mirror @ quadric[v] @ mirror
    version = np.zeros(len(x), int)
    heap: list = []

    def neighbours(v: int) -> set[int]:
        return {u for k in around[v] for u in rows[k]} - {v}

    def offer(a: int, b: int) -> None:
        if seam[a] and seam[b] and len(around[a] & around[b]) != 1:
            return  # an edge through the inside between two points of the seam
        at, cost = _best(quadric[a] + quadric[b], x[a], x[b], seam[a] or seam[b])
        heapq.heappush(heap, (cost, a, b, version[a], version[b], tuple(at)))

    def fits(a: int, b: int, at: np.ndarray) -> bool:
        """Whether no face turns far, gets too thin, or faces another way than the solid, when a and b move to a place."""
        moved = [(k, v) for v, other in ((a, b), (b, a)) for k in around[v] - around[other]]
        before = x[[rows[k] for k, _ in moved]]
        after = before.copy()
        after[range(len(moved)), [rows[k].index(v) for k, v in moved]] = at
        n0, n1 = (np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0]) for p in (before, after))
        s0, s1 = np.linalg.norm(n0, axis=1), np.linalg.norm(n1, axis=1)
        longest = ((after - np.roll(after, 1, 1)) ** 2).sum(2).max(1)
        if ((n0 * n1).sum(1) < strict * KEPT * s0 * s1).any() or (s1 < strict * SLIVER * longest).any():
            return False
        g = _slope(solid, after.mean(1), 1e-4)
        return bool(((n1 * g).sum(1) >= strict * FACING * s1 * np.linalg.norm(g, axis=1)).all())

    for a in range(len(x)):
        for b in neighbours(a):
            if a < b:
                offer(a, b)
    alive = len(x)
    while alive > goal and heap:
        _, a, b, va, vb, at = heapq.heappop(heap)
        if version[a] != va or version[b] != vb or version[a] < 0 or version[b] < 0:
            continue
        at = np.array(at)
        shared = around[a] & around[b]
        common = neighbours(a) & neighbours(b)
        if seam[a] != seam[b]:
            inner, outer = (b, a) if seam[a] else (a, b)
            if any(seam[u] and u not in neighbours(outer) for u in neighbours(inner) - {outer}):
                continue  # it would join two points of the seam through the inside
        if len(common) != len(shared) or not fits(a, b, at):
            continue  # the link condition keeps the surface a manifold
        for k in shared:
            for v in rows.pop(k):
                around[v].discard(k)
        for k in around[b]:
            rows[k][rows[k].index(b)] = a
        around[a] |= around[b]
        around[b] = set()
        x[a], quadric[a], seam[a] = at, quadric[a] + quadric[b], seam[a] or seam[b]
        version[b], version[a] = -1, version[a] + 1
        alive -= 1
        for u in neighbours(a):
            offer(a, u)
    used, flat = np.unique(np.array(list(rows.values())), return_inverse=True)
    return x[used], flat.reshape(-1, 3)


def _best(q: np.ndarray, a: np.ndarray, b: np.ndarray, on_seam: bool) -> tuple[np.ndarray, float]:
    """Where the quadric error of an edge is least, near the edge, and the error."""
    free = [0, 2] if on_seam else [0, 1, 2]
    middle, length = (a + b) / 2, float(np.linalg.norm(b - a))
    A = q[np.ix_(free, free)]
    A = A + 1e-3 * np.trace(A) * np.eye(len(free))  # stays near the middle along what the quadric leaves open
    at = middle.copy()
    if on_seam:
        at[1] = 0
    gradient = (q[:3, :3] @ at + q[:3, 3])[free]
    step = -np.linalg.solve(A + 1e-15 * np.eye(len(free)), gradient)
    step *= min(1.0, length / max(np.linalg.norm(step), 1e-300))
    at[free] += step
    p = np.append(at, 1.0)
    return at, float(p @ q @ p) + 1e-9 * length**2


def _mirrored(x: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With its mirror image in y = 0, vertices on the seam being one."""
    off = np.abs(x[:, 1]) >= SEAM
    twin = np.arange(len(x))
    twin[off] = len(x) + np.arange(off.sum())
    other = x[off] * [1, -1, 1]
    return np.concatenate([x, other]), np.concatenate([faces, twin[faces][:, ::-1]])
