"""Parameters of a scene by dotted name, such as `cube.mass` or `ground.friction`."""

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args
from weakref import ref

import numpy as np

from gradsim.errors import InputError
from gradsim.scene.body import PLACEMENT_KEYS, Pendulum, Push, Rigid
from gradsim.scene.camera import CameraSpec
from gradsim.scene.channels.channel import Channel
from gradsim.scene.cloth import AIR, BENDING, IN_PLANE, Air, Cloth, SheetPlasticity
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.ground import Ground
from gradsim.scene.interactions import Attachment, BodyContact, Marker
from gradsim.scene.joint import Ball, Fixed, Prismatic, Revolute, placing_joints
from gradsim.scene.light import Ambient, Directional, Harmonics, Point
from gradsim.scene.node import Node
from gradsim.scene.obstacle import Obstacle
from gradsim.scene.quantity import Quantity, Tuple
from gradsim.scene.recordings.motion import Motion
from gradsim.scene.recordings.pose import PoseMotion
from gradsim.scene.rods.rod import ROD, Rod, RodPlasticity
from gradsim.scene.scene import Scene, Timing
from gradsim.scene.soft_body import Anchor, ContactOverrides, Soft, VertexImpulse
from gradsim.scene.solid import MATERIAL, Hysteresis, Relaxation, Solid, SolidRegion
from gradsim.scene.springs import SPRINGS, Springs

AXES, CHANNELS = ("x", "y", "z"), ("r", "g", "b")
COEFFICIENTS = {"distortion": ("k1", "k2", "p1", "p2", "k3"), "fisheye": ("k1", "k2", "k3", "k4")}  # of a lens
COMPONENTS = COEFFICIENTS | {
    "inertia_log_cholesky": ("d1", "d2", "d3", "s12", "s23", "s13")
}  # of vectors of more than three
# Arrays, 0 by default
SIGNED_ARRAYS = {
    "vertex_velocity": (False, "m/s", -math.inf),
    "motion_offset": (False, "m", -math.inf),
    "motion_rotation": (False, "rad", -math.inf),
}
MIN_DELAY = -0.5  # delay of a camera [frames]: states go on that far before the start
OPTICS = (*COEFFICIENTS, "readout", "exposure", "delay")  # keys of a camera that are parameters where a scene has them
RESPONSE = ("gamma", "gain")  # and keys that are parameters of masks, where a scene has them
CONTACT = ("stiffness", "dissipation", "damping", "friction_stiffness", "friction")
LINKS = ("contacts", "attachments", "markers", "channels")
MOST_TABLES = 64  # scenes whose parameters are remembered
ROLLING = ("rolling_friction", "spinning_friction")
START = ("position", "rotation_vector", "velocity", "angular_velocity")
POINTS = ("parent_point", "child_point")
AXIS_JOINT_KEYS = (
    *POINTS,
    "axis",
    "stiffness",
    "target",
    "backlash",
    "damping",
    "friction",
    "armature",
    "lower",
    "upper",
    "limit_stiffness",
)
SOFT_KEYS = (*START, "scale", "rest_length_factor", "contact", "anchors", "pushes", "motion")
KEYS: dict[type[Node], tuple[str, ...]] = {  # a key whose value is a node, or several, is expanded to their keys
    Rigid: (
        "mass",
        "density",
        "inertia",
        "inertia_log_cholesky",
        "centre_of_mass",
        "scale",
        *START,
        *CONTACT,
        "drag",
        "pushes",
    ),
    Push: ("impulse", "force"),
    Solid: (*MATERIAL, "activation", "relaxation", "hysteresis", *SOFT_KEYS, "regions"),
    Relaxation: ("ratio", "time"),
    Hysteresis: ("loss_factor",),
    Cloth: (*IN_PLANE, *BENDING, "relaxation", "hysteresis", "plasticity", "air", *SOFT_KEYS),
    SheetPlasticity: ("yield_moment", "time", "hardening"),
    Springs: ("mass", "density", *SPRINGS, "radius", *(key for key in SOFT_KEYS if key not in SPRINGS)),
    Rod: ("mass", "density", *ROD, "relaxation", "hysteresis", "plasticity", "radius", *SOFT_KEYS),
    RodPlasticity: ("yield_moment", "yield_torque", "time", "hardening"),
    Air: AIR,
    Anchor: ("stiffness", "damping", "offset"),
    Motion: ("offset", "delay"),
    SolidRegion: MATERIAL,
    ContactOverrides: CONTACT,
    VertexImpulse: ("impulse",),
    Pendulum: ("string_length", "radius", "angle", "rate", "damping", "drag", "force_per_mass", "pivot"),
    DoublePendulum: (
        *("first_length", "second_length", "first_mass", "second_mass", "damping", "force", "pivot"),
        *("first_angle", "second_angle", "first_rate", "second_rate", "first_radius", "second_radius"),
    ),
    Ground: (*CONTACT, *ROLLING, "margin", "height", "normal"),
    Obstacle: (*CONTACT, *ROLLING, "margin", "radius", "size", "position", "rotation_vector"),
    BodyContact: ("thickness", "stiffness", "dissipation", "friction_stiffness", "friction"),
    Attachment: ("stiffness", "damping"),
    Revolute: (*AXIS_JOINT_KEYS, "friction_rate", "angle", "rate", "torque"),
    Prismatic: (*AXIS_JOINT_KEYS, "friction_speed", "displacement", "speed", "force"),
    Ball: (*POINTS, "rotation_vector", "angular_velocity", "damping", "friction", "friction_rate"),
    Fixed: POINTS,
    Ambient: ("colour",),
    Directional: ("direction", "colour"),
    Point: ("position", "colour"),
    Harmonics: (),
    Marker: ("point",),
    Channel: ("scale", "offset", "delay"),
}


@dataclass(frozen=True, eq=False)
class Parameter:
    """A number, vector or array of a scene.

    Attributes:
        value: Number () or vector (n,), SI units; an array has shape (n,) or (n, 3).
        unit: SI unit, "" for a pure number.
        positive: True for a positive scale, which estimators parametrize by its logarithm.
        lower, upper: Range.
        row_of: Noun of a row of an array, such as "vertex"; "" for a number or vector.
        elements: Number of elements if a rollout accepts one value per element, (worlds, elements); else 0.
        timed: True if a rollout also accepts values per frame interval, (worlds, intervals, elements).
    """

    value: np.ndarray
    unit: str
    positive: bool
    lower: float
    upper: float
    row_of: str = ""
    elements: int = 0
    timed: bool = False


def parameters(scene: Scene) -> dict[str, Parameter]:
    """All parameters of a scene by name.

    `NAME.rotation_vector` is an additional rotation in the world frame: the initial orientation is
    exp(rotation_vector) quat_xyzw, of bodies and of obstacle boxes. `timing.rate` and `timing.offset` are the clock:
    frame k is at simulated time offset + rate k/fps. Cameras have `focal`, the focal length [px], or (f_x, f_y) where
    the pixels are not square, `centre`, the principal point [px], `translation`, t [m], and `rotation_vector`, an additional rotation
    about the axes of the camera, x_c = exp(rotation_vector) R x + t: `camera.focal` of the first camera, `cameras.NAME.focal` of a further one.
    Those that the scene states also have `distortion` or `fisheye`, with components such as k1, `readout` [s], `exposure` [s] and `delay` [s], and the response `gamma` and `gain`.
    Lights have `lights.NAME.direction`, `.position` and `.colour`, with
    components r, g and b.

    Interactions are `contacts.NAME.stiffness` and so on, `attachments.NAME.stiffness`, `.damping`, and
    `joints.NAME.stiffness` and so on; places of markers on rigid bodies are `markers.NAME.point`; channels of a log have `channels.NAME.scale`, `.offset` and `.delay`. A body that a joint places has no `position`, `rotation_vector`, `velocity` and
    `angular_velocity`, but the coordinates of the joint, such as `joints.NAME.angle` and `.rate`.

    A rigid body or joint with a `motion` has arrays with a row per sample: `NAME.motion_offset` (times, 3) [m], added to the positions, and
    `NAME.motion_rotation` (times, 3) [rad], rotation vectors in the world by which the orientations are turned further. Such a body has no
    parameters of a start either.

    Soft bodies have arrays, with a row per vertex or element: `NAME.vertex_mass_factor` (n,), a factor of the vertex
    masses, `NAME.vertex_velocity` (n, 3) [m/s], added to the initial velocity, `NAME.motion_offset` (times · vertices, 3) [m], added to the positions of `motion` (of poses: (times, 3)), `NAME.motion_rotation`
    (times, 3) [rad], by which its poses are turned in the world, and factors of the moduli such as `NAME.mu_factor` (m,). Those of
    several motions follow one another. They are for gradients and for solvers of many unknowns.
    """
    nodes = _nodes(scene)
    reference, known, table = _tables.get(id(scene), (None, [], {}))
    same = len(known) == len(nodes) and all(
        a is b or (isinstance(a, str) and a == b) for a, b in zip(known, nodes, strict=True)
    )
    if reference is None or reference() is not scene or not same:
        table = _table(scene)
        if len(_tables) >= MOST_TABLES:
            _tables.clear()
        _tables[id(scene)] = ref(scene), nodes, table
    return dict(table)


_tables: dict[int, tuple[ref, list[object], dict[str, Parameter]]] = {}


def _nodes(scene: Scene) -> list[object]:
    """All that `parameters` come from; nodes do not change."""
    groups = (scene.bodies, scene.surfaces, scene.recorded, scene.joints, scene.views, scene.lights)
    groups += tuple(getattr(scene, key) for key in LINKS)
    return [scene.gravity, scene.timing, *(x for group in groups for pair in group.items() for x in pair)]


def _table(scene: Scene) -> dict[str, Parameter]:
    """Those of `parameters`."""
    table = {"gravity": _parameter(scene.gravity, Quantity("m/s^2"))}
    placements = placing_joints(scene.joints)
    touching = {name for contact in scene.contacts.values() for name in contact.names(scene.bodies)}
    for name, node in [*scene.bodies.items(), *scene.surfaces.items()]:
        entries = _of_node(node, name)
        if (
            name in placements or name in scene.recorded
        ):  # they set the start: derivatives by these would be silently zero
            entries = {n: p for n, p in entries.items() if n.removeprefix(f"{name}.") not in PLACEMENT_KEYS}
        if name in touching:  # the surfaces by which bodies touch one another are about the center of mass of the scene
            entries.pop(f"{name}.centre_of_mass", None)
        table |= entries
        if name in scene.recorded:
            table |= _of_recording(scene.recorded[name], name)
        if isinstance(node, Soft):
            table |= _of_soft(node, name, table)
    for key in LINKS:
        for name, link in getattr(scene, key).items():
            table |= _of_node(link, f"{key}.{name}")
    table |= _of_joints(scene)
    for key in ("rate", "offset"):
        table[f"timing.{key}"] = _parameter(getattr(scene.timing, key), _quantity(Timing, key))
    for name, camera in scene.views.items():
        K, _, t = camera.matrices()
        focal, prefix = K[0, 0] if K[0, 0] == K[1, 1] else K.diagonal()[:2], camera_prefix(name)
        table[f"{prefix}.focal"] = _parameter(focal, Quantity("px", lower=0.0, positive=True))
        table[f"{prefix}.centre"] = _parameter(K[:2, 2], Quantity("px"))
        table[f"{prefix}.rotation_vector"] = _parameter(np.zeros(3), Quantity("rad"))
        table[f"{prefix}.translation"] = _parameter(t, Quantity("m"))
        for key in (*OPTICS, *RESPONSE):
            if getattr(camera, key) is not None:
                table[f"{prefix}.{key}"] = _parameter(getattr(camera, key), _quantity(CameraSpec, key))
        if camera.delay is not None:  # no camera sees what was before the start
            table[f"{prefix}.delay"] = replace(table[f"{prefix}.delay"], lower=MIN_DELAY / scene.timing.fps)
    for name, light in scene.lights.items():
        for key in KEYS[type(light)]:
            table[f"lights.{name}.{key}"] = _parameter(getattr(light, key), _quantity(type(light), key))
    return table


def component_letters(name: str) -> tuple[str, ...]:
    """Letters of the components of a vector parameter."""
    return COMPONENTS.get(name.rpartition(".")[2]) or (CHANNELS if name.endswith(".colour") else AXES)


def _letters(name: str, parameter: Parameter) -> tuple[str, ...]:
    """Letters of the components of a parameter; none for a number or an array."""
    return component_letters(name)[: parameter.value.size] if parameter.value.ndim and not parameter.row_of else ()


def camera_prefix(camera: str) -> str:
    """Prefix of the parameters of a camera: "camera" of the first, "cameras.NAME" of a further one."""
    return camera if camera == "camera" else f"cameras.{camera}"


def resolve(scene: Scene, name: str, known: Mapping[str, Parameter] | None = None) -> tuple[str, int | None]:
    """Resolve a name to a parameter and a component: "cube.position.x" is ("cube.position", 0).

    Args:
        scene: The scene.
        name: Dotted name.
        known: Its `parameters`, where they are at hand.

    Raises:
        InputError: If the scene has no such parameter; the message suggests the closest one.
    """
    known = parameters(scene) if known is None else known
    if name in known:
        return name, None
    parent, _, axis = name.rpartition(".")
    if parent in known and axis in _letters(parent, known[parent]):
        return parent, component_letters(parent).index(axis)
    owner, _, key = (parent if axis in AXES else name).rpartition(".")
    placements = placing_joints(scene.joints)
    if owner in placements and key in PLACEMENT_KEYS:
        joint = placements[owner]
        start = ", ".join(f"`joints.{joint}.{k}`" for k in scene.joints[joint].start)
        instead = f"use {start}" if start else "it has no coordinate"
        raise InputError(f"`{owner}` has no `{key}`: the joint `{joint}` places it; {instead}.")
    if owner in scene.recorded and key in PLACEMENT_KEYS:
        raise InputError(
            f"`{owner}` has no `{key}`: it follows its `motion`; use `{owner}.motion_offset` or `{owner}.motion_rotation`."
        )
    raise InputError(f"the scene has no parameter `{name}`{_hint(name, known)}")


def _of_node(node: Node, name: str) -> dict[str, Parameter]:
    """Parameters of a node and of its child nodes."""
    table: dict[str, Parameter] = {}
    for key in KEYS[type(node)]:
        value = getattr(node, key)
        if key == "rotation_vector" and isinstance(node, Obstacle) and node.radius is not None:
            continue  # no effect on a ball
        inner = dict(enumerate(value)) if isinstance(value, tuple) and value and isinstance(value[0], Node) else value
        if isinstance(inner, Node):
            table |= _of_node(inner, f"{name}.{key}")
        elif isinstance(inner, dict):
            for child, part in inner.items():
                table |= _of_node(part, f"{name}.{key}.{child}")
        elif value is not None and value != ():
            table[f"{name}.{key}"] = _parameter(value, _quantity(type(node), key))
    return table


def _of_soft(node: Soft, name: str, table: dict[str, Parameter]) -> dict[str, Parameter]:
    """Arrays of a soft body, and its parameters with optional values per element."""
    arrays = {
        f"{name}.{key}": Parameter(np.full(shape, float(positive)), unit, positive, lower, math.inf, row_of)
        for key, (shape, row_of) in (node.arrays | node.motion_arrays).items()
        for positive, unit, lower in [SIGNED_ARRAYS.get(key, (True, "", 0.0))]
    }
    counts = {f"{name}.{key}": count for key, count in node.by_element.items() if f"{name}.{key}" in table}
    timed = [f"{name}.{key}" for key in node.by_time]
    return arrays | {key: replace(table[key], elements=n, timed=key in timed) for key, n in counts.items()}


def _of_joints(scene: Scene) -> dict[str, Parameter]:
    """Parameters of joints: without initial coordinates where they close a loop; motors per frame interval."""
    table: dict[str, Parameter] = {}
    placements = placing_joints(scene.joints).values()
    for name, joint in scene.joints.items():
        for key, parameter in _of_node(joint, "").items():
            key = key.removeprefix(".")
            if name in placements or key not in joint.start:
                timed = key in joint.forces
                table[f"joints.{name}.{key}"] = replace(parameter, elements=1, timed=True) if timed else parameter
        if joint.motion is not None:
            table |= _of_recording(joint.motion, f"joints.{name}")
    return table


def _of_recording(motion: PoseMotion, name: str) -> dict[str, Parameter]:
    """Offsets and rotation vectors in the world, which are added to the samples of a recording."""
    table = {}
    for key in ("motion_offset", "motion_rotation"):
        positive, unit, lower = SIGNED_ARRAYS[key]
        table[f"{name}.{key}"] = Parameter(np.zeros((len(motion.times), 3)), unit, positive, lower, math.inf, "sample")
    return table


def _hint(name: str, known: Mapping[str, Parameter]) -> str:
    owner, _, key = name.rpartition(".")
    stored = next((k for k in ("dissipation", "damping") if f"{owner}.{k}" in known), None)
    if key == "restitution" and stored:
        return f": a `restitution` in the file becomes a `{stored}`; use `{owner}.{stored}`."
    for first, second in (
        ("mass", "density"),
        ("density", "mass"),
        ("damping", "dissipation"),
        ("dissipation", "damping"),
    ):
        if key == first and f"{owner}.{second}" in known:
            return f": the scene gives `{second}` of `{owner}`; use `{owner}.{second}`, or give `{first}` in the scene."
    for pair, others in ((("mu", "lam"), ("young", "poisson")), (("young", "poisson", "thickness"), ("mu", "lam"))):
        if key in pair and f"{owner}.{others[0]}" in known:
            names, instead = (" and ".join(f"`{k}`" for k in keys) for keys in (others, pair))
            return f": the scene gives {names} of `{owner}`; use those, or give {instead} in the scene."
    for end in (name, owner):
        camera, _, key = end.rpartition(".")
        if key in RESPONSE and end not in known and f"{camera}.focal" in known:
            return f"; write `{key}: {'2.2' if key == 'gamma' else '1'}` into that camera first: its values are light, as bright as the empty scene, until the scene says more."
        if key in OPTICS and end not in known and f"{camera}.focal" in known:
            start = [0] * len(COEFFICIENTS[key]) if key in COEFFICIENTS else 0
            return f"; write `{key}: {start}` into that camera first: it is a pinhole with a global shutter until the scene says more."
    children = [k.removeprefix(f"{name}.") for k in known if k.startswith(f"{name}.")]
    if children:
        return f"; `{name}` has {', '.join(children)}."
    if key == "inertia_log_cholesky" or owner.endswith(".inertia_log_cholesky"):
        return "; write `inertia_log_cholesky: [0, 0, 0, 0, 0, 0]` into that rigid body first: its inertia is that of its density until the scene says more."
    if key == "centre_of_mass" or owner.endswith(".centre_of_mass"):
        return (
            "; write `centre_of_mass: [x, y, z]` into that rigid body first: it is that of a uniform density until the scene says more, "
            "and fixed where `contacts` let the body touch others."
        )
    if owner in known:
        letters, row_of = _letters(owner, known[owner]), known[owner].row_of
        what = f"has components {', '.join(letters)}" if letters else "is one number"
        return f"; `{owner}` {f'is an array with one row per {row_of}' if row_of else what}."
    components = [f"{n}.{a}" for n, p in known.items() for a in _letters(n, p)]
    near = difflib.get_close_matches(name, [*known, *components], 1)
    return f"; did you mean `{near[0]}`?" if near else f"; it has {', '.join(known)}."


def _parameter(value, quantity: Quantity) -> Parameter:
    array = np.array(value, np.float64)
    return Parameter(array, quantity.unit, quantity.positive, quantity.lower, quantity.upper)


def _quantity(cls: type[Node], key: str) -> Quantity:
    """Quantity that annotates a field: of the number, or of each component."""
    field = cls.model_fields[key]
    for note in [*field.metadata, *(n for a in get_args(field.annotation) for n in getattr(a, "__metadata__", ()))]:
        quantity = note.component if isinstance(note, Tuple) else note
        if isinstance(quantity, Quantity):
            return quantity
    raise TypeError(f"{cls.__name__}.{key} is not annotated with a Quantity.")
