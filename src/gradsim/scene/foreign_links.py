"""Links of a Newton builder that are fixed to one another, as one.

With T the pose of the child B in the link of its parent A, and r a centre of mass from the common one:

    m = m_A + m_B,   m c = m_A c_A + m_B T c_B,   I = Σ R I Rᵀ + m (r² 1 − r rᵀ)

Newton's own `collapse_fixed_joints` leaves the inertia of a heavy part of a light link about another point.
"""

import numpy as np

from gradsim.scene.foreign_body import Frame, matrix


def merge(builder) -> list[int]:
    """Make every link that is fixed to another a part of it, in place; the numbers of those that are none any more.

    What is fixed to the world stays a link of its own, unless it has no mass: then it is the world.
    """
    import newton

    fixed = [k for k, kind in enumerate(builder.joint_type) if kind == newton.JointType.FIXED]
    holds = {builder.joint_child[k]: k for k in fixed if builder.joint_parent[k] != -1}
    for part in sorted(holds, key=lambda body: -_depth(body, holds, builder)):  # the ends of chains first
        _join(builder, holds[part], part)
    for k in [k for k in fixed if builder.joint_parent[k] == -1 and builder.body_mass[builder.joint_child[k]] <= 0]:
        holds[builder.joint_child[k]] = k
        _join(builder, k, builder.joint_child[k])
    return sorted(holds)


def _join(builder, k: int, part: int) -> None:
    """Make a link a part of the one that joint k fixes it to."""
    whole = builder.joint_parent[k]
    place = Frame.of(builder.joint_X_p[k]) @ Frame.of(builder.joint_X_c[k]).inverse
    if whole != -1:
        _weigh(builder, whole, part, place)
    for shape in builder.body_shapes[part]:
        builder.shape_transform[shape] = (place @ Frame.of(builder.shape_transform[shape])).values
        builder.shape_body[shape] = whole
    builder.body_shapes[whole] = [*builder.body_shapes[whole], *builder.body_shapes[part]]
    builder.body_shapes[part] = []
    for j in [j for j, parent in enumerate(builder.joint_parent) if parent == part]:
        builder.joint_parent[j] = whole
        builder.joint_X_p[j] = (place @ Frame.of(builder.joint_X_p[j])).values


def _depth(body: int, holds: dict[int, int], builder) -> int:
    return 1 + _depth(builder.joint_parent[holds[body]], holds, builder) if body in holds else 0


def _weigh(builder, whole: int, part: int, place: Frame) -> None:
    """Mass, centre and inertia of two links together, in the frame of the first."""
    masses = [float(builder.body_mass[body]) for body in (whole, part)]
    centres = [np.array([float(v) for v in builder.body_com[body]]) for body in (whole, part)]
    inertias = [matrix(builder.body_inertia[body]) for body in (whole, part)]
    centres[1], inertias[1] = place.R @ centres[1] + place.p, place.R @ inertias[1] @ place.R.T
    if not sum(masses):
        return
    centre = np.average(centres, axis=0, weights=masses)
    arms = [c - centre for c in centres]
    steiner = [m * (r @ r * np.eye(3) - np.outer(r, r)) for m, r in zip(masses, arms, strict=True)]
    builder.body_mass[whole], builder.body_com[whole] = sum(masses), centre
    builder.body_inertia[whole] = sum(inertias) + sum(steiner)
