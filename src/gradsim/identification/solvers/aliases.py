"""Angular velocities that turn a symmetric body alike in every frame of a video, as a wheel with spokes seems to stand still.

    exp(θ') = exp(θ) Q S Qᵀ,    ω' = ω + f (θ' − θ)      θ = ω/f: rotation between frames of rate f; Q: orientation at the start
                                                          S: rotation that maps the body to itself, which may be none at all

and whole turns more about the axis of θ'. Each frame is the same where S turns about the axis of θ, and the motion of the center is. Starts come to one of these by chance, so all that
are within the ranges are compared with an answer (`uncertainty.other_minima`). A body without symmetry has whole turns between frames alone, beyond
most ranges.
"""

import math

import numpy as np
import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.numerics import rotation
from gradsim.scene.body import Rigid

MOST_ALIASES = 6  # that descend: those of the lowest cost
MOST_TURNS = 4  # between frames
MOST_FARTHEST = 24  # vertices equally far from the center; more are those of a round body
MOST_VERTICES = 2000  # of a mesh whose symmetry is looked for
SAME_PLACE = 1e-3  # of the radius: two vertices so near are one
COLLINEAR = 1e-3  # sine of the angle between vertices, below which they fix no rotation
SAME_SPIN = 0.05  # [rad] a frame by which a component that is not an unknown may be off


def spin_aliases(problem: Problem, u: Tensor) -> Tensor:
    """Places (aliases, unknowns) in the ranges where angular velocities are aliases of those at u (unknowns,), or near one.

    Args:
        problem: Of one clip.
        u: The answer.
    """
    space, scene = problem.space, problem.model.scene
    values, places = space.values(u[None]), []
    for name, body in scene.bodies.items():
        if not isinstance(body, Rigid) or f"{name}.angular_velocity" not in values:
            continue
        columns = {
            index: k
            for k, parts in enumerate(space.places)
            for part, index in parts
            if part == f"{name}.angular_velocity" and index is not None
        }
        spin = values[f"{name}.angular_velocity"][0]
        most = torch.zeros(3).double()
        for index, k in columns.items():
            most[index] = torch.maximum(space.high[k] - spin[index], spin[index] - space.low[k])
        reach = most.norm().item() / scene.timing.fps  # [rad] a frame, to the farthest corner of the ranges
        turned = values.get(f"{name}.rotation_vector", u.new_tensor(body.rotation_vector)[None])[0]
        q = rotation.multiply(rotation.exponential(turned), u.new_tensor(body.quat_xyzw))
        for change in _changes(spin / scene.timing.fps, q, body, reach):
            other = u.clone()
            for index, k in columns.items():
                other[k] += change[index] * scene.timing.fps
            fixed = [abs(change[index].item()) for index in range(3) if index not in columns]
            if max(fixed, default=0.0) < SAME_SPIN and ((other >= space.low) & (other <= space.high)).all():
                places.append(other)
    if not places:
        return u[None][:0]
    near = torch.stack(places)
    cost = problem.cost(near, problem.frames)
    order = cost.argsort()[:MOST_ALIASES]
    return near[order[cost[order].isfinite()]]


def _changes(theta: Tensor, q: Tensor, body: Rigid, reach: float) -> list[Tensor]:
    """Changes θ' − θ (3,) [rad] of the rotation between frames, shorter than `reach`."""
    least = math.tau / MOST_FARTHEST  # [rad] a frame: symmetries of smaller angles are not looked for
    if reach < least:
        return []
    changes = []
    for symmetry in symmetries(_points(body)):
        by_symmetry = rotation.multiply(rotation.multiply(q, symmetry), rotation.conjugate(q))
        vector = rotation.logarithm(rotation.multiply(rotation.exponential(theta), by_symmetry))
        angle = vector.norm()
        axis = vector / angle if angle > COLLINEAR else theta / theta.norm().clamp(min=COLLINEAR)
        changes += [vector + math.tau * n * axis - theta for n in range(-MOST_TURNS, MOST_TURNS + 1)]
    return [change for change in changes if COLLINEAR < change.norm() <= reach]


def _points(body: Rigid) -> np.ndarray:
    """Vertices (n, 3) of the shape about their mean."""
    vertices = np.unique(np.asarray(body.shape.mesh().vertices, dtype=np.float64), axis=0)
    return vertices - vertices.mean(0)


def symmetries(points: np.ndarray) -> Tensor:
    """Unit quaternions (symmetries, 4) of the rotations about 0 that map points (n, 3) to themselves, first that by 0.

    It alone for points of which many are the farthest from 0, as of round bodies.
    """
    from scipy.spatial import KDTree

    identity = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).double()
    radius = np.linalg.norm(points, axis=1)
    if len(points) > MOST_VERTICES or not radius.max() > 0:
        return identity
    order = np.argsort(-radius)
    points, radius = points[order] / radius.max(), radius[order] / radius.max()
    first = points[0]
    sine = np.linalg.norm(np.cross(first, points), axis=1)
    apart = np.flatnonzero(sine > COLLINEAR)
    if not len(apart):
        return identity
    second = points[apart[0]]
    images = [np.flatnonzero(np.abs(radius - np.linalg.norm(p)) < SAME_PLACE) for p in (first, second)]
    if max(map(len, images)) > MOST_FARTHEST:
        return identity
    frame, tree, rotations = _frame(first, second), KDTree(points), []
    for p in points[images[0]]:
        for r in points[images[1]]:
            if abs(p @ r - first @ second) < SAME_PLACE and np.linalg.norm(np.cross(p, r)) > COLLINEAR:
                R = _frame(p, r) @ frame.T
                if tree.query(points @ R.T)[0].max() < SAME_PLACE:
                    rotations.append(R)
    others = [R for R in rotations if np.abs(R - np.eye(3)).max() > SAME_PLACE]
    return torch.cat([identity, rotation.from_matrix(torch.tensor(np.array(others)).double())]) if others else identity


def _frame(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Rotation whose columns are the direction of a, that of b across it, and across both."""
    x = a / np.linalg.norm(a)
    y = b - (b @ x) * x
    y /= np.linalg.norm(y)
    return np.stack([x, y, np.cross(x, y)], 1)
