"""The numbers of a scene by dotted name, such as `cube.mass` or `ground.friction`: what can be an unknown."""

import difflib
from dataclasses import dataclass
from typing import get_args

import numpy as np

from gradsim.errors import InputError
from gradsim.scene.body import Pendulum, Rigid
from gradsim.scene.ground import Ground
from gradsim.scene.light import Ambient, Directional, Harmonics, Point
from gradsim.scene.node import Node
from gradsim.scene.obstacle import Obstacle
from gradsim.scene.quantity import Quantity, Tuple
from gradsim.scene.scene import Scene, Timing

AXES, CHANNELS = "xyz", "rgb"
CONTACT = ("stiffness", "dissipation", "damping", "friction_stiffness", "friction")
KEYS: dict[type[Node], tuple[str, ...]] = {
    Rigid: ("mass", "density", "scale", "position", "rotation_vector", "velocity", "angular_velocity", *CONTACT),
    Pendulum: ("string_length", "radius", "angle", "rate", "damping", "drag", "pivot"),
    Ground: (*CONTACT, "margin", "height", "normal"),
    Obstacle: (*CONTACT, "margin", "radius", "size", "position", "rotation_vector"),
    Ambient: ("colour",),
    Directional: ("direction", "colour"),
    Point: ("position", "colour"),
    Harmonics: (),
}


@dataclass(frozen=True, eq=False)
class Parameter:
    """A number or vector of a scene.

    Attributes:
        value: () or (n,), SI units.
        unit: SI unit, "" for a pure number.
        positive: Whether it is a scale, above 0 by nature, which estimators see by its logarithm.
        lower, upper: The range.
    """

    value: np.ndarray
    unit: str
    positive: bool
    lower: float
    upper: float


def parameters(scene: Scene) -> dict[str, Parameter]:
    """All parameters of a scene by name.

    `NAME.rotation_vector` turns the body further, in the world frame, from its `quat_xyzw`: the orientation at the
    start is exp(rotation_vector) quat; so it is with the boxes among the obstacles. `timing.rate` and `timing.offset`
    are the clock: frame k shows the motion at offset + rate k/fps. Of a camera, `focal` is the focal length [px], two of them (f_x, f_y) where the
    pixels are not square, `centre` the principal point [px] and `translation` t [m]; they are `camera.focal` of the
    first camera and `cameras.NAME.focal` of a further one. Lights have `lights.NAME.direction`, `.position` and
    `.colour`; the components of a colour are r, g and b.
    """
    found = {"gravity": _parameter(scene.gravity, Quantity("m/s^2"))}
    for name, node in [*scene.bodies.items(), *scene.surfaces.items()]:
        for key in KEYS[type(node)]:
            value = getattr(node, key)
            if value is not None and (key != "rotation_vector" or getattr(node, "radius", None) is None):
                found[f"{name}.{key}"] = _parameter(value, _quantity(type(node), key))
        for k, push in enumerate(getattr(node, "pushes", ())):
            key = "impulse" if push.force is None else "force"
            found[f"{name}.pushes.{k}.{key}"] = _parameter(getattr(push, key), _quantity(type(push), key))
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
    if (
        parent in known
        and len(axis) == 1
        and axis in axes(parent)[: known[parent].value.size]
        and known[parent].value.ndim
    ):
        return parent, axes(parent).index(axis)
    raise InputError(f"the scene has no parameter `{name}`{_hint(name, known)}")


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
    own = [k.removeprefix(f"{name}.") for k in known if k.startswith(f"{name}.")]
    if own:
        return f"; `{name}` has {', '.join(own)}."
    if owner in known:
        letters = axes(owner)[: known[owner].value.size] if known[owner].value.ndim else ""
        return f"; `{owner}` {'has components ' + ', '.join(letters) if letters else 'is one number'}."
    components = [f"{n}.{a}" for n, p in known.items() if p.value.ndim for a in axes(n)[: p.value.size]]
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
