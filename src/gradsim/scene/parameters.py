"""The numbers of a scene by dotted name, such as `cube.mass` or `ground.friction`: what can be an unknown."""

import difflib
import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from gradsim.errors import InputError
from gradsim.scene.body import Pendulum, Push, Rigid
from gradsim.scene.cloth import AIR, BENDING, IN_PLANE, Air, Cloth
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.ground import Ground
from gradsim.scene.interactions import Attachment, Meeting
from gradsim.scene.joint import PLACED, Ball, Fixed, Prismatic, Revolute, placing
from gradsim.scene.light import Ambient, Directional, Harmonics, Point
from gradsim.scene.node import Node
from gradsim.scene.obstacle import Obstacle
from gradsim.scene.quantity import Quantity, Tuple
from gradsim.scene.scene import Scene, Timing
from gradsim.scene.soft_body import Anchor, Blow, OwnContact, Soft
from gradsim.scene.solid import MATERIAL, Solid, SolidRegion
from gradsim.scene.springs import SPRINGS, Springs

AXES, CHANNELS = "xyz", "rgb"
CONTACT = ("stiffness", "dissipation", "damping", "friction_stiffness", "friction")
START = ("position", "rotation_vector", "velocity", "angular_velocity")
POINTS = ("parent_point", "child_point")
ALONG = (*POINTS, "axis", "stiffness", "target", "damping", "lower", "upper", "limit_stiffness")
SOFT = (*START, "scale", "rest_length_factor", "contact", "anchors", "pushes")
KEYS: dict[type[Node], tuple[str, ...]] = {  # a key whose value is a node, or several, stands for their keys
    Rigid: ("mass", "density", "inertia", "scale", *START, *CONTACT, "pushes"),
    Push: ("impulse", "force"),
    Solid: (*MATERIAL, "activation", *SOFT, "regions"),
    Cloth: (*IN_PLANE, *BENDING, "air", *SOFT),
    Springs: ("mass", "density", *SPRINGS, "radius", *(key for key in SOFT if key not in SPRINGS)),
    Air: AIR,
    Anchor: ("stiffness", "damping", "offset"),
    SolidRegion: MATERIAL,
    OwnContact: CONTACT,
    Blow: ("impulse",),
    Pendulum: ("string_length", "radius", "angle", "rate", "damping", "drag", "force_per_mass", "pivot"),
    DoublePendulum: (
        *("first_length", "second_length", "first_mass", "second_mass", "damping", "force", "pivot"),
        *("first_angle", "second_angle", "first_rate", "second_rate", "first_radius", "second_radius"),
    ),
    Ground: (*CONTACT, "margin", "height", "normal"),
    Obstacle: (*CONTACT, "margin", "radius", "size", "position", "rotation_vector"),
    Meeting: ("thickness", "stiffness", "dissipation", "friction_stiffness", "friction"),
    Attachment: ("stiffness", "damping"),
    Revolute: (*ALONG, "angle", "rate", "torque"),
    Prismatic: (*ALONG, "displacement", "speed", "force"),
    Ball: (*POINTS, "rotation_vector", "angular_velocity", "damping"),
    Fixed: POINTS,
    Ambient: ("colour",),
    Directional: ("direction", "colour"),
    Point: ("position", "colour"),
    Harmonics: (),
}


@dataclass(frozen=True, eq=False)
class Parameter:
    """A number, vector or array of a scene.

    Attributes:
        value: () or (n,), SI units; of an array (n,) or (n, 3).
        unit: SI unit, "" for a pure number.
        positive: Whether it is a scale, above 0 by nature, which estimators see by its logarithm.
        lower, upper: The range.
        each: What an array has one row for, as "vertex"; "" for a number or vector.
        elements: Where a rollout may be given this number one for each of so many elements, (worlds, elements); else 0.
        timed: Whether a rollout may also be given a value for each frame interval, (worlds, intervals, elements).
    """

    value: np.ndarray
    unit: str
    positive: bool
    lower: float
    upper: float
    each: str = ""
    elements: int = 0
    timed: bool = False


def parameters(scene: Scene) -> dict[str, Parameter]:
    """All parameters of a scene by name.

    `NAME.rotation_vector` turns the body further, in the world frame, from its `quat_xyzw`: the orientation at the
    start is exp(rotation_vector) quat; so it is with the boxes among the obstacles. `timing.rate` and `timing.offset`
    are the clock: frame k shows the motion at offset + rate k/fps. Of a camera, `focal` is the focal length [px], two of them (f_x, f_y) where the
    pixels are not square, `centre` the principal point [px] and `translation` t [m]; they are `camera.focal` of the
    first camera and `cameras.NAME.focal` of a further one. Lights have `lights.NAME.direction`, `.position` and
    `.colour`; the components of a colour are r, g and b.

    What bodies do to one another is `contacts.NAME.stiffness` and so on, `attachments.NAME.stiffness`, `.damping`, and
    `joints.NAME.stiffness` and so on. A body that a joint places has no `position`, `rotation_vector`, `velocity` and
    `angular_velocity`: the joint's own coordinates, such as `joints.NAME.angle` and `.rate`, stand for them.

    Soft bodies have arrays too, with a row for each vertex or element: `NAME.vertex_mass_factor` (n,), by which the masses
    of vertices are multiplied, `NAME.vertex_velocity` (n, 3) [m/s], which is added to the start's, and factors of the
    moduli such as `NAME.mu_factor` (m,). They are for gradients and for solvers of many unknowns.
    """
    found = {"gravity": _parameter(scene.gravity, Quantity("m/s^2"))}
    placed = placing(scene.joints)
    for name, node in [*scene.bodies.items(), *scene.surfaces.items()]:
        own = _of_node(node, name)
        if name in placed:  # a joint says where it starts, so a gradient by these would be a silent zero
            own = {n: p for n, p in own.items() if n.removeprefix(f"{name}.") not in PLACED}
        found |= own
        if isinstance(node, Soft):
            found |= _of_soft(node, name, found)
    for key in ("contacts", "attachments"):
        for name, link in getattr(scene, key).items():
            found |= _of_node(link, f"{key}.{name}")
    found |= _of_joints(scene)
    for key in ("rate", "offset"):
        found[f"timing.{key}"] = _parameter(getattr(scene.timing, key), _quantity(Timing, key))
    for name, camera in scene.views.items():
        K, _, t = camera.matrices()
        focal, lens = K[0, 0] if K[0, 0] == K[1, 1] else K.diagonal()[:2], lens_of(name)
        found[f"{lens}.focal"] = _parameter(focal, Quantity("px", lower=0.0, positive=True))
        found[f"{lens}.centre"] = _parameter(K[:2, 2], Quantity("px"))
        found[f"{lens}.translation"] = _parameter(t, Quantity("m"))
    for name, light in scene.lights.items():
        for key in KEYS[type(light)]:
            found[f"lights.{name}.{key}"] = _parameter(getattr(light, key), _quantity(type(light), key))
    return found


def axes(name: str) -> str:
    """Letters of the components of a vector among the parameters."""
    return CHANNELS if name.endswith(".colour") else AXES


def _letters(name: str, parameter: Parameter) -> str:
    """Those of the components of a parameter; none for a number or an array."""
    return axes(name)[: parameter.value.size] if parameter.value.ndim and not parameter.each else ""


def lens_of(camera: str) -> str:
    """How the parameters of a camera begin: "camera" of the first, "cameras.NAME" of another."""
    return camera if camera == "camera" else f"cameras.{camera}"


def resolve(scene: Scene, name: str) -> tuple[str, int | None]:
    """The parameter that a name means, and which component of it: "cube.position.x" is ("cube.position", 0).

    Raises:
        InputError: If the scene has none of that name; with the nearest one.
    """
    known = parameters(scene)
    if name in known:
        return name, None
    parent, _, axis = name.rpartition(".")
    if parent in known and len(axis) == 1 and axis in _letters(parent, known[parent]):
        return parent, axes(parent).index(axis)
    owner, _, key = (parent if axis in AXES else name).rpartition(".")
    places = placing(scene.joints)
    if owner in places and key in PLACED:
        start = ", ".join(f"`joints.{places[owner]}.{k}`" for k in scene.joints[places[owner]].start)
        instead = f"solve for {start}" if start else "it has no coordinate"
        raise InputError(f"`{owner}` has no `{key}`: the joint `{places[owner]}` places it; {instead}.")
    raise InputError(f"the scene has no parameter `{name}`{_hint(name, known)}")


def _of_node(node: Node, name: str) -> dict[str, Parameter]:
    """The numbers of a node and of the nodes in it."""
    found: dict[str, Parameter] = {}
    for key in KEYS[type(node)]:
        value = getattr(node, key)
        if key == "rotation_vector" and isinstance(node, Obstacle) and node.radius is not None:
            continue  # a ball looks the same however it is turned
        inner = dict(enumerate(value)) if isinstance(value, tuple) and value and isinstance(value[0], Node) else value
        if isinstance(inner, Node):
            found |= _of_node(inner, f"{name}.{key}")
        elif isinstance(inner, dict):
            for own, part in inner.items():
                found |= _of_node(part, f"{name}.{key}.{own}")
        elif value is not None and value != ():
            found[f"{name}.{key}"] = _parameter(value, _quantity(type(node), key))
    return found


def _of_soft(node: Soft, name: str, found: dict[str, Parameter]) -> dict[str, Parameter]:
    """The arrays of a soft body, and its numbers that may be given for each element."""
    arrays = {
        f"{name}.{key}": Parameter(np.full(shape, float(positive)), unit, positive, lower, math.inf, each)
        for key, (shape, each) in node.arrays.items()
        for positive, unit, lower in [(False, "m/s", -math.inf) if key == "vertex_velocity" else (True, "", 0.0)]
    }
    counts = {f"{name}.{key}": count for key, count in node.by_element.items() if f"{name}.{key}" in found}
    timed = [f"{name}.{key}" for key in node.by_time]
    return arrays | {key: replace(found[key], elements=n, timed=key in timed) for key, n in counts.items()}


def _of_joints(scene: Scene) -> dict[str, Parameter]:
    """The numbers of joints: of one that closes a loop without a start, and motors one for each frame interval."""
    found: dict[str, Parameter] = {}
    places = placing(scene.joints).values()
    for name, joint in scene.joints.items():
        for key, one in _of_node(joint, "").items():
            key = key.removeprefix(".")
            if name in places or key not in joint.start:
                timed = key in joint.forces
                found[f"joints.{name}.{key}"] = replace(one, elements=1, timed=True) if timed else one
    return found


def _hint(name: str, known: dict[str, Parameter]) -> str:
    owner, _, key = name.rpartition(".")
    for one, other in (
        ("mass", "density"),
        ("density", "mass"),
        ("damping", "dissipation"),
        ("dissipation", "damping"),
    ):
        if key == one and f"{owner}.{other}" in known:
            return f": `{owner}` is given by `{other}`; solve for that, or give `{one}` in its place."
    for pair, others in ((("mu", "lam"), ("young", "poisson")), (("young", "poisson", "thickness"), ("mu", "lam"))):
        if key in pair and f"{owner}.{others[0]}" in known:
            given = " and ".join(f"`{k}`" for k in others)
            return f": `{owner}` has no `{key}`: it is given by {given}; solve for those, or give it by the others."
    own = [k.removeprefix(f"{name}.") for k in known if k.startswith(f"{name}.")]
    if own:
        return f"; `{name}` has {', '.join(own)}."
    if owner in known:
        letters, each = _letters(owner, known[owner]), known[owner].each
        what = f"has components {', '.join(letters)}" if letters else "is one number"
        return f"; `{owner}` {f'is an array with one row for each {each}' if each else what}."
    components = [f"{n}.{a}" for n, p in known.items() for a in _letters(n, p)]
    near = difflib.get_close_matches(name, [*known, *components], 1)
    return f"; did you mean `{near[0]}`?" if near else f"; it has {', '.join(known)}."


def _parameter(value, quantity: Quantity) -> Parameter:
    array = np.array(value, np.float64)
    return Parameter(array, quantity.unit, quantity.positive, quantity.lower, quantity.upper)


def _quantity(cls: type[Node], key: str) -> Quantity:
    """The annotation of a field: that of the number, or of each component."""
    field = cls.model_fields[key]
    for note in [*field.metadata, *(n for a in get_args(field.annotation) for n in getattr(a, "__metadata__", ()))]:
        each = note.each if isinstance(note, Tuple) else note
        if isinstance(each, Quantity):
            return each
    raise TypeError(f"{cls.__name__}.{key} is not annotated with a Quantity.")
