"""Sculpt the objects that come with gradsim: `python benchmarks/objects.py OUT [NAME ...]` writes OUT/NAME.obj.

Primitives come from `gradsim.geometry.mesh`; the others are smooth unions of simple solids, as functions of points (..., 3) that are
negative inside, along x, with z up, mirrored in y = 0; see `sculpting.py`. What is in `src/gradsim/scene/objects` was made
by this file, in about two minutes.
"""

import math
import sys
from pathlib import Path

import numpy as np
import sculpting

from gradsim.geometry import mesh as meshes
from gradsim.geometry.mesh import Mesh


def length(v):
    return np.sqrt((v * v).sum(-1))


def ball(p, c, r):
    return length(p - np.array(c)) - r


def ellipsoid(p, c, r):
    q = (p - np.array(c)) / np.array(r)
    k = length(q)
    return (k - 1) * k / np.maximum(length(q / np.array(r)), 1e-9)


def limb(p, a, b, ra, rb):
    """A cone with round ends between balls at a and b."""
    a, b = np.array(a, float), np.array(b, float)
    t = np.clip(((p - a) @ (b - a)) / ((b - a) @ (b - a)), 0, 1)
    return length(p - a - t[..., None] * (b - a)) - (ra + t * (rb - ra))


def block(p, c, half, r):
    q = np.abs(p - np.array(c)) - np.array(half) + r
    return length(np.maximum(q, 0)) + np.minimum(q.max(-1), 0) - r


def union(*parts, k=0.0):
    f = parts[0]
    for g in parts[1:]:
        h = np.maximum(k - np.abs(f - g), 0) / k if k else 0
        f = np.minimum(f, g) - h * h * k / 4
    return f


def without(f, g, k=0.0):
    return -union(-f, g, k=k)


def polygon(u, v, corners):
    """Signed distance to a polygon in the plane."""
    c = np.array(corners, float)
    d = np.full(u.shape, np.inf)
    inside = np.zeros(u.shape, bool)
    for (ax, ay), (bx, by) in zip(c, np.roll(c, -1, 0), strict=True):
        ex, ey = bx - ax, by - ay
        t = np.clip(((u - ax) * ex + (v - ay) * ey) / (ex * ex + ey * ey), 0, 1)
        d = np.minimum(d, np.hypot(u - ax - t * ex, v - ay - t * ey))
        inside ^= ((ay > v) != (by > v)) & (u < ex * (v - ay) / np.where(ey == 0, 1e-30, ey) + ax)
    return np.where(inside, -d, d)


def plate(p, axis, corners, half, r=0.0, at=0.0):
    """An outline in the plane across an axis, thick by 2 half about `at`, edges rounded by r."""
    u, v = (p[..., k] for k in range(3) if k != axis)
    q = np.stack([polygon(u, v, corners) + r, np.abs(p[..., axis] - at) - half + r], -1)
    return length(np.maximum(q, 0)) + np.minimum(q.max(-1), 0) - r


def sided(p):
    return p * [1, 0, 1] + np.abs(p) * [0, 1, 0]


def pear(p):
    return union(
        union(ball(p, (0, 0, 0.32), 0.32), ball(p, (0, 0, 0.72), 0.165), k=0.28),
        limb(p, (0, 0, 0.85), (0.05, 0, 1.03), 0.02, 0.024),
        k=0.03,
    )


def banana(p):
    R = 0.55
    a = np.arctan2(p[..., 0], -(p[..., 2] - R))
    t = np.clip(a, -1.15, 1.25)
    c = np.stack([R * np.sin(t), 0 * t, R - R * np.cos(t)], -1)
    s = np.clip(t / 1.2, -1, 1)
    r = 0.05 + 0.085 * np.sqrt(np.maximum(1 - s * s, 0)) ** 0.8
    return (length(p - c) - r) * 0.8


def pepper(p):
    x, y, z = np.moveaxis(p, -1, 0)
    rho = np.hypot(x, y)
    phi = np.arctan2(y, x)
    lobes = 1 + 0.13 * np.cos(4 * phi + math.pi) * np.clip(rho / 0.2, 0, 1)
    wide = 0.24 + 0.13 * np.clip(z / 0.8, 0, 1)
    q = np.stack([rho / (wide * lobes), np.abs(z - 0.42) / 0.42], -1)
    body = ((q**2.6).sum(-1) ** (1 / 2.6) - 1) * 0.3
    dent = ball(p, (0, 0, 0.97), 0.19)
    return union(without(body, dent, k=0.15), limb(p, (0, 0, 0.75), (0.05, 0, 0.98), 0.05, 0.04), k=0.05)


def duck(p):
    p = sided(p)
    body = ellipsoid(p, (0, 0, 0.28), (0.44, 0.27, 0.27))
    body = union(body, limb(p, (-0.28, 0, 0.33), (-0.52, 0, 0.52), 0.14, 0.035), k=0.12)
    head = union(ball(p, (0.28, 0, 0.72), 0.19), limb(p, (0.26, 0, 0.4), (0.28, 0, 0.66), 0.15, 0.13), k=0.06)
    f = union(body, head, k=0.12)
    f = union(f, ellipsoid(p, (-0.06, 0.25, 0.33), (0.25, 0.07, 0.13)), k=0.03)
    return union(f, ellipsoid(p, (0.5, 0, 0.68), (0.15, 0.1, 0.045)), k=0.04)


def cat(p):
    p = sided(p)
    f = limb(p, (-0.28, 0, 0.44), (0.24, 0, 0.46), 0.145, 0.135)
    f = union(f, limb(p, (0.24, 0, 0.5), (0.38, 0, 0.64), 0.11, 0.1), k=0.08)
    for x, z in ((-0.31, 0.4), (0.25, 0.42)):
        f = union(f, limb(p, (x, 0.09, z), (x + 0.01, 0.1, 0.055), 0.075, 0.05), k=0.04)
        f = union(f, limb(p, (x + 0.01, 0.1, 0.04), (x + 0.06, 0.1, 0.04), 0.045, 0.04), k=0.02)
    f = union(f, ball(p, (0.42, 0, 0.68), 0.155), k=0.06)
    f = union(f, ellipsoid(p, (0.55, 0, 0.63), (0.06, 0.085, 0.06)), k=0.04)
    f = union(f, limb(p, (0.4, 0.085, 0.78), (0.39, 0.11, 0.92), 0.065, 0.012), k=0.02)
    f = union(f, limb(p, (-0.38, 0, 0.5), (-0.56, 0, 0.62), 0.05, 0.045), k=0.05)
    return union(f, limb(p, (-0.56, 0, 0.62), (-0.6, 0, 0.9), 0.045, 0.04), k=0.04)


def fish(p):
    p = sided(p)
    body = ellipsoid(p, (0.08, 0, 0), (0.42, 0.13, 0.22))
    body = union(body, limb(p, (-0.2, 0, 0), (-0.38, 0, 0), 0.09, 0.05), k=0.08)
    tail = plate(p, 1, [(-0.3, 0.02), (-0.56, 0.26), (-0.5, 0), (-0.56, -0.26), (-0.3, -0.02)], 0.028, 0.02)
    top = plate(p, 1, [(0.2, 0.12), (0.02, 0.36), (-0.2, 0.3), (-0.22, 0.1)], 0.025, 0.02)
    low = plate(p, 1, [(0.05, -0.12), (-0.08, -0.31), (-0.2, -0.27), (-0.14, -0.1)], 0.025, 0.02)
    return union(body, tail, top, low, k=0.04)


def mug(p):
    rho = np.hypot(p[..., 0], p[..., 1])

    def tube(radius, low, high, r):
        q = np.stack([rho - radius + r, np.abs(p[..., 2] - (low + high) / 2) - (high - low) / 2 + r], -1)
        return length(np.maximum(q, 0)) + np.minimum(q.max(-1), 0) - r

    ring = np.hypot((p[..., 0] - 0.4) / 1.0, (p[..., 2] - 0.43) / 1.2) - 0.19
    handle = np.hypot(ring, p[..., 1] / 1.3) - 0.048
    return np.maximum(union(tube(0.37, 0, 0.86, 0.03), handle, k=0.05), -tube(0.31, 0.07, 1.2, 0.03))


def stapler(p):
    base = plate(p, 1, [(-0.5, 0), (0.5, 0), (0.5, 0.05), (0.3, 0.07), (-0.5, 0.1)], 0.11, 0.015)
    arm = plate(
        p,
        1,
        [
            (-0.5, 0.08),
            (-0.46, 0.28),
            (-0.3, 0.34),
            (0.44, 0.43),
            (0.5, 0.37),
            (0.49, 0.28),
            (-0.2, 0.17),
            (-0.22, 0.08),
        ],
        0.085,
        0.02,
    )
    return union(base, arm, k=0.02)


def airplane(p):
    p = sided(p)
    f = limb(p, (0.42, 0, 0), (-0.1, 0, 0), 0.07, 0.075)
    f = union(f, limb(p, (-0.1, 0, 0), (-0.5, 0, 0.04), 0.075, 0.03), k=0.02)
    f = union(f, ellipsoid(p, (0.46, 0, -0.005), (0.12, 0.06, 0.06)), k=0.03)
    up = p - np.array([0, 0, 1.0]) * (0.12 * np.maximum(p[..., 1:2] - 0.05, 0))
    wing = plate(up, 2, [(0.16, -0.02), (-0.06, 0.5), (-0.15, 0.5), (-0.1, -0.02)], 0.022, 0.018, -0.03)
    tail = plate(up, 2, [(-0.36, -0.02), (-0.46, 0.2), (-0.52, 0.2), (-0.5, -0.02)], 0.018, 0.016, 0.04)
    fin = plate(p, 1, [(-0.32, 0.03), (-0.46, 0.25), (-0.54, 0.25), (-0.5, 0.03)], 0.018, 0.016)
    engine = limb(p, (0.13, 0.21, -0.06), (0, 0.21, -0.052), 0.042, 0.034)
    return union(f, wing, tail, fin, engine, k=0.025)


SCULPTED = {  # solid, low, high, cells, vertices
    "pear": (pear, (-0.4, -0.4, -0.1), (0.4, 0.4, 1.1), 60, 110),
    "banana": (banana, (-0.7, -0.2, -0.2), (0.8, 0.2, 0.6), 90, 110),
    "pepper": (pepper, (-0.55, -0.55, -0.1), (0.55, 0.55, 1.1), 60, 150),
    "duck": (duck, (-0.65, -0.4, -0.1), (0.75, 0.4, 1.0), 80, 180),
    "cat": (cat, (-0.75, -0.3, -0.1), (0.75, 0.3, 1.0), 100, 220),
    "fish": (fish, (-0.65, -0.35, -0.4), (0.6, 0.35, 0.45), 100, 170),
    "mug": (mug, (-0.5, -0.5, -0.1), (0.75, 0.5, 1.0), 80, 170),
    "stapler": (stapler, (-0.6, -0.2, -0.1), (0.6, 0.2, 0.55), 110, 90),
    "airplane": (airplane, (-0.65, -0.6, -0.2), (0.65, 0.6, 0.35), 123, 200),
}
PRIMITIVES = {
    "box": meshes.box((1, 1, 1)),
    "cylinder": meshes.cylinder(0.5, 1, 10),
    "cone": meshes.cone(0.5, 1, 10),
    "capsule": meshes.capsule(0.3, 0.4, 10, 2),
    "torus": meshes.torus(0.36, 0.14, 14, 7),
}


def write(path: Path, solid: Mesh, digits: int) -> None:
    """With the middle of its bounding box at the origin, and 1 as its largest extent."""
    low, high = solid.vertices.min(0), solid.vertices.max(0)
    x = ((solid.vertices - (low + high) / 2) / (high - low).max()).round(digits) + 0.0
    meshes.check(Mesh(x, solid.faces), path.stem)
    lines = [f"v {a:.12g} {b:.12g} {c:.12g}" for a, b, c in x] + [f"f {a} {b} {c}" for a, b, c in solid.faces + 1]
    path.write_text("\n".join(lines) + "\n")


def main(out: str, *names: str) -> None:
    for name in names or [*PRIMITIVES, *SCULPTED]:
        if name in PRIMITIVES:
            solid, digits = PRIMITIVES[name], 12  # flat faces stay flat
        else:
            solid, digits = Mesh(*sculpting.mesh(*SCULPTED[name])), 4
        write(Path(out) / f"{name}.obj", solid, digits)
        print(f"{name}: {len(solid.vertices)} vertices")


if __name__ == "__main__":
    main(*sys.argv[1:])
