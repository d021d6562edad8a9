"""Joints of a Newton builder in the words of a scene.

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

ALWAYS = ("kind", "between", "lower", "upper")  # keys that count where they are 0, too
ENDLESS = 1e6  # [rad or m] a limit of Newton beyond it is none


@dataclass
class Joint:
    """A joint in the words of a scene, or the fault that keeps it out.

    Attributes:
        content: As in a scene file.
        quat_xyzw: The child's orientation relative to its parent.
        fault: Why gradsim cannot represent it.
        notes: What was left out or assumed.
    """

    content: dict[str, Any] = field(default_factory=dict)
    quat_xyzw: list[float] = field(default_factory=list)
    fault: str = ""
    notes: list[str] = field(default_factory=list)


def joint_of(builder, joint: int, name: str, names: Mapping[int, str], bodies: Mapping[int, Body]) -> Joint:
    """One joint of a Newton builder that is not free.

    Args:
        builder: The builder.
        joint: Its number.
        name: What it is called in the scene.
        names: Of the bodies that are taken over, by number.
        bodies: The same bodies.
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
        return Joint(fault=f"joint `{name}` is switched off; take it out.")
    if builder.joint_mimic_joint[joint] != -1:
        return Joint(fault=f"joint `{name}` mimics another; gradsim's joints move by themselves.")
    kind = kinds[type_]
    own = bodies[parent] if parent in bodies else Body()  # the world
    outer, inner = Frame.of(builder.joint_X_p[joint]), Frame.of(builder.joint_X_c[joint])
    turn = own.turn.T @ outer.R
    found = Joint(
        {
            "kind": kind,
            "between": [names.get(parent, WORLD), names[child]],
            "parent_point": vector(own.turn.T @ (outer.p - own.centre)),
            "child_point": vector(bodies[child].turn.T @ (inner.p - bodies[child].centre)),
        },
        Frame(turn @ inner.R.T @ bodies[child].turn, np.zeros(3)).quat_xyzw,
    )
    first, rate = builder.joint_q_start[joint], builder.joint_qd_start[joint]
    if kind == "ball":
        start = Rotation.from_quat([float(v) for v in builder.joint_q[first : first + 4]])
        spin = np.array([float(v) for v in builder.joint_qd[rate : rate + 3]])
        found.content |= {
            "rotation_vector": vector(turn @ start.as_rotvec()),
            "angular_velocity": vector(turn @ spin),
            "damping": _ball_damping(builder, rate, name, found),
        }
    elif kind != "fixed":
        start = number(builder.joint_q[first]), number(builder.joint_qd[rate])
        axis = np.array([float(v) for v in builder.joint_axis[rate]])
        keys = ("angle", "rate") if kind == "revolute" else ("displacement", "speed")
        found.content |= {"axis": vector(turn @ axis), **dict(zip(keys, start, strict=True))}
        found.content |= _acting(builder, first, rate, name, kind, found)
    found.content = {k: v for k, v in found.content.items() if k in ALWAYS or np.any(v)}
    return found


def _acting(builder, q: int, dof: int, name: str, kind: str, found: Joint) -> dict[str, Any]:
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
        "torque" if kind == "revolute" else "force": number(builder.joint_f[dof]),
    }
    if builder.joint_target_kd[dof] and builder.joint_target_qd[dof]:
        found.notes.append(f"left out: the target rate of `{name}`; its motor damps towards rest.")
    ends = {"lower": builder.joint_limit_lower[dof], "upper": builder.joint_limit_upper[dof]}
    ends = {key: number(end) for key, end in ends.items() if abs(end) < ENDLESS}
    beyond = [key for key, end in ends.items() if kind == "revolute" and abs(end) > HALF_TURN]
    if beyond:
        found.notes.append(f"left out: the limits of `{name}` beyond half a turn, which gradsim's do not see.")
        ends = {key: end for key, end in ends.items() if key not in beyond}
    if ends:
        content |= {**ends, "limit_stiffness": number(builder.joint_limit_ke[dof])}
        found.notes.append(
            f"limits of `{name}`: springs of {number(builder.joint_limit_ke[dof]):g} "
            f"{'N m/rad' if kind == 'revolute' else 'N/m'}, Newton's where the file says nothing, without damping."
        )
    _left_out(builder, (dof,), name, found)
    return content


def _ball_damping(builder, dof: int, name: str, found: Joint) -> float:
    """The damping of a ball joint, the same about all axes."""
    dofs = range(dof, dof + 3)
    each = [float(builder.joint_damping[k] + builder.joint_target_kd[k]) for k in dofs]
    if max(each) - min(each) > 1e-6 * max(each):
        found.notes.append(f"damping of `{name}`: the mean of {', '.join(f'{number(d):g}' for d in each)} was taken.")
    if any(builder.joint_stiffness[k] or builder.joint_target_ke[k] for k in dofs):
        found.fault = f"joint `{name}` is a ball joint with a spring; gradsim's have dampers only."
    _left_out(builder, dofs, name, found)
    return number(sum(each) / 3)


def _left_out(builder, dofs, name: str, found: Joint) -> None:
    for attribute, words in (("joint_friction", "dry friction"), ("joint_armature", "armature (a rotor's inertia)")):
        if any(getattr(builder, attribute)[k] for k in dofs):
            found.notes.append(f"left out: {words} of `{name}`; gradsim's joints have none.")
