"""Joints of a Newton builder as entries of a scene.

Newton has an anchor X_p in the parent's link and X_c in the child's, and the joint's own motion J between them: link
poses obey L_B = L_A X_p J X_c⁻¹. A body of gradsim has the frame of its shape, turned by S in the link's, and its points
count from the centre of mass, so with a the axis in the anchor

    axis = S_Aᵀ X_p a,   orientation of the child = S_Aᵀ X_p X_cᵀ S_B,   points = Sᵀ (X − centre)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from gradsim.scene.importers.bodies import Body, Frame, number, vector
from gradsim.scene.joint import HALF_TURN, WORLD

REQUIRED_KEYS = ("kind", "between", "lower", "upper")  # keys that are written even if they are 0
MAX_LIMIT = 1e6  # [rad or m] limits of Newton beyond it mean no limit


@dataclass
class Joint:
    """Joint as an entry of a scene, or the reason why it is not supported.

    Attributes:
        content: Entry of a scene file.
        quat_xyzw: Orientation of the child relative to its parent.
        fault: Why gradsim cannot represent it.
        notes: Omissions and assumptions.
    """

    content: dict[str, Any] = field(default_factory=dict)
    quat_xyzw: list[float] = field(default_factory=list)
    fault: str = ""
    notes: list[str] = field(default_factory=list)


def joint_of(builder, joint: int, name: str, names: Mapping[int, str], bodies: Mapping[int, Body]) -> Joint:
    """Convert a joint of a Newton builder that is not free.

    Args:
        builder: Builder.
        joint: Index of the joint.
        name: Name in the scene.
        names: Names of the imported bodies by index.
        bodies: The same bodies by index.
    """
    import newton

    kinds = {
        newton.JointType.REVOLUTE: "revolute",
        newton.JointType.PRISMATIC: "prismatic",
        newton.JointType.BALL: "ball",
        newton.JointType.FIXED: "fixed",
    }
    type_ = newton.JointType(builder.joint_type[joint])
    parent, child = builder.joint_parent[joint], builder.joint_child[joint]
    if type_ not in kinds:
        slides, turns = builder.joint_dof_dim[joint]
        return Joint(
            fault=f"joint `{name}` of body `{names[child]}` is {type_.name.lower()} ({slides} directions, {turns} axes); "
            f"gradsim's are {', '.join(kinds.values())}. Put a light body between two of them."
        )
    if not builder.joint_enabled[joint]:
        return Joint(fault=f"joint `{name}` is disabled; remove it from the file.")
    if builder.joint_mimic_joint[joint] != -1:
        return Joint(fault=f"joint `{name}` mimics another joint, which gradsim does not support.")
    kind = kinds[type_]
    parent_body = bodies[parent] if parent in bodies else Body()  # the world
    outer, inner = Frame.of(builder.joint_X_p[joint]), Frame.of(builder.joint_X_c[joint])
    turn = parent_body.turn.T @ outer.R
    result = Joint(
        {
            "kind": kind,
            "between": [names.get(parent, WORLD), names[child]],
            "parent_point": vector(parent_body.turn.T @ (outer.p - parent_body.centre)),
            "child_point": vector(bodies[child].turn.T @ (inner.p - bodies[child].centre)),
        },
        Frame(turn @ inner.R.T @ bodies[child].turn, np.zeros(3)).quat_xyzw,
    )
    first, rate = builder.joint_q_start[joint], builder.joint_qd_start[joint]
    if kind == "ball":
        start = Rotation.from_quat([float(v) for v in builder.joint_q[first : first + 4]])
        spin = np.array([float(v) for v in builder.joint_qd[rate : rate + 3]])
        result.content |= {
            "rotation_vector": vector(turn @ start.as_rotvec()),
            "angular_velocity": vector(turn @ spin),
            "damping": _ball_damping(builder, rate, name, result),
            "friction": number(sum(float(builder.joint_friction[k]) for k in range(rate, rate + 3)) / 3),
        }
    elif kind != "fixed":
        start = number(builder.joint_q[first]), number(builder.joint_qd[rate])
        axis = np.array([float(v) for v in builder.joint_axis[rate]])
        keys = ("angle", "rate") if kind == "revolute" else ("displacement", "speed")
        result.content |= {"axis": vector(turn @ axis), **dict(zip(keys, start, strict=True))}
        result.content |= _acting(builder, first, rate, name, kind, result)
    result.content = {k: v for k, v in result.content.items() if k in REQUIRED_KEYS or np.any(v)}
    return result


def _acting(builder, q: int, dof: int, name: str, kind: str, result: Joint) -> dict[str, Any]:
    """Springs, dampers, motors and limits along one coordinate."""
    springs = [
        (builder.joint_stiffness[dof], builder.joint_rest_q[q]),
        (builder.joint_target_ke[dof], builder.joint_target_q[q]),
    ]
    stiffness = sum(k for k, _ in springs)
    content = {
        "stiffness": number(stiffness),
        "target": number(sum(k * rest for k, rest in springs) / stiffness) if stiffness else 0.0,
        "damping": number(builder.joint_damping[dof] + builder.joint_target_kd[dof]),
        "friction": number(builder.joint_friction[dof]),
        "armature": number(builder.joint_armature[dof]),
        "torque" if kind == "revolute" else "force": number(builder.joint_f[dof]),
    }
    if builder.joint_target_kd[dof] and builder.joint_target_qd[dof]:
        result.notes.append(f"left out: the target rate of `{name}`; its motor damps towards rest.")
    ends = {"lower": builder.joint_limit_lower[dof], "upper": builder.joint_limit_upper[dof]}
    ends = {key: number(end) for key, end in ends.items() if abs(end) < MAX_LIMIT}
    beyond = [key for key, end in ends.items() if kind == "revolute" and abs(end) > HALF_TURN]
    if beyond:
        result.notes.append(f"left out: the limits of `{name}` beyond half a turn, which gradsim does not support.")
        ends = {key: end for key, end in ends.items() if key not in beyond}
    if ends:
        content |= {**ends, "limit_stiffness": number(builder.joint_limit_ke[dof])}
        result.notes.append(
            f"limits of `{name}`: springs of {number(builder.joint_limit_ke[dof]):g} "
            f"{'N m/rad' if kind == 'revolute' else 'N/m'}, Newton's default if the file has none, without damping."
        )
    _left_out(builder, (dof,), name, result)
    return content


def _ball_damping(builder, dof: int, name: str, result: Joint) -> float:
    """Damping of a ball joint, equal about all axes."""
    dofs = range(dof, dof + 3)
    dampings = [float(builder.joint_damping[k] + builder.joint_target_kd[k]) for k in dofs]
    if max(dampings) - min(dampings) > 1e-6 * max(dampings):
        result.notes.append(
            f"damping of `{name}`: the mean of {', '.join(f'{number(d):g}' for d in dampings)} was taken."
        )
    if any(builder.joint_stiffness[k] or builder.joint_target_ke[k] for k in dofs):
        result.fault = f"joint `{name}` is a ball joint with a spring; in gradsim, ball joints have dampers only."
    _left_out(builder, dofs, name, result)
    return number(sum(dampings) / 3)


def _left_out(builder, dofs, name: str, result: Joint) -> None:
    if len(dofs) > 1 and any(builder.joint_armature[k] for k in dofs):
        result.notes.append(f"left out: armature (a rotor's inertia) of `{name}`; gradsim's ball joints have none.")
    if any(builder.joint_friction[k] for k in dofs):
        result.notes.append(
            f"dry friction of `{name}`: smooth, so at rest the joint creeps; set its `friction_rate` or `friction_speed`."
        )
