"""A scene: everything that is known about a motion before it is computed. Data only; SI units, z up.

The kinds of bodies by the word that stands for them in a file.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer
from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.scene import yaml_io
from gradsim.scene.body import Pendulum, Rigid
from gradsim.scene.camera import Camera
from gradsim.scene.cloth import Cloth
from gradsim.scene.contact import Contact
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.ground import Ground
from gradsim.scene.interactions import Attachment, Meeting, mixed, twice
from gradsim.scene.joint import JOINTS, AnyJoint, conflicts_of
from gradsim.scene.light import LIGHTS, Light
from gradsim.scene.material import COLOUR
from gradsim.scene.node import ByKind, Node, Place, did_you_mean, mistake, shown
from gradsim.scene.obstacle import Obstacle
from gradsim.scene.quantity import Count, Quantity, Vector3, plain, vector
from gradsim.scene.soft_body import OwnContact, Soft
from gradsim.scene.solid import Solid
from gradsim.scene.springs import Springs

Body = Rigid | Pendulum | DoublePendulum | Solid | Cloth | Springs
KINDS: dict[str, type[Body]] = {
    "rigid": Rigid,
    "pendulum": Pendulum,
    "double_pendulum": DoublePendulum,
    "solid": Solid,
    "cloth": Cloth,
    "springs": Springs,
}


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")  # a dot separates the parts of a parameter's name
TAKEN = (
    "gravity",
    "camera",
    "cameras",
    "timing",
    "background",
    "lights",
    "contacts",
    "attachments",
    "joints",
    "scene",
    "systems",
)  # what a scene or model has itself


class Timing(Node):
    """The clock.

    Attributes:
        fps: Frames per second [1/s].
        frames: How many; the first is the start.
        substeps: Steps per frame, or `auto`: as many as the stiffness of the contacts asks for.
        integrator: `semi-implicit` (Euler) or `rk4`; soft bodies take `implicit` (Euler) too, for stiff ones.
        rate: Seconds of the motion in one second of this clock: 0.5 for a film at half the speed it claims.
        offset: The first frame is that much after the start of the motion [s, of the motion].
    """

    fps: Annotated[float, Quantity("1/s", lower=0.0, above=True)] = 30.0
    frames: Annotated[int, Count(1, 100_000)] = 60
    substeps: Annotated[int | Literal["auto"], Count(1, 1_000_000, ("auto",))] = "auto"
    integrator: Literal["semi-implicit", "rk4", "implicit"] = "semi-implicit"
    rate: Annotated[float, Quantity("", lower=0.0, above=True, positive=True)] = 1.0
    offset: Annotated[float, Quantity("s", lower=0.0)] = 0.0


class _Gravity:
    """Annotates gravity: a vector, or its strength g for (0, 0, −g)."""

    unit = "m/s^2"

    def __get_pydantic_core_schema__(self, source, handler):
        whole = vector(self.unit).__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_wrap_validator_function(self._read, whole)

    def _read(self, given: Any, read_vector) -> Vector3:
        given = plain(given)
        if not isinstance(given, str | int | float):
            return read_vector(given)
        strength = Quantity(self.unit).read(given)
        if strength < 0:
            raise mistake(f"got {shown(given)}; a single number is the strength downwards: write {-strength:g}.")
        return 0.0, 0.0, -strength


class Scene(Node):
    """What the user says about a motion.

    Attributes:
        name: For titles; one line.
        gravity: Acceleration [m/s²]; a single number g in a file means (0, 0, −g).
        timing: The clock.
        bodies: By name.
        grounds: Planes by name. In a file, `ground` stands for a single one of that name.
        obstacles: Balls and boxes that stay where they are, by name. All grounds and obstacles follow the same contact
            law. Bodies touch grounds and obstacles; they pass through one another, and soft ones through themselves, but
            for what `contacts` says.
        contacts: Which soft bodies touch themselves, one another, or rigid balls and boxes, and which rigid bodies touch
            one another, by a name for each.
        attachments: Which vertices of soft bodies are held by rigid ones, by a name for each.
        joints: Hinges, slides, ball joints and rigid links between rigid bodies, or to the world, by a name for each.
        camera: Where it is seen from; needed to see anything.
        cameras: Further cameras by name, which film the same motion at the same instants.
        background: Colour behind everything.
        lights: By name. Without any, every surface shows its own colour.
        shading: How pictures are painted: `colour` (each surface shows its own, whatever the lights), `lambert` (matte
            in the light), or with highlights after Phong (`phong`) or Blinn (`blinn-phong`).
    """

    name: str = "scene"
    gravity: Annotated[Vector3, _Gravity()] = (0.0, 0.0, -9.81)
    timing: Timing = Timing()
    bodies: dict[str, Annotated[Body, ByKind(KINDS, "rigid")]] = Field(description="at least one body by name")
    grounds: dict[str, Ground] = Field(default_factory=dict)
    obstacles: dict[str, Obstacle] = Field(default_factory=dict)
    contacts: dict[str, Meeting] = Field(default_factory=dict)
    attachments: dict[str, Attachment] = Field(default_factory=dict)
    joints: dict[str, Annotated[AnyJoint, ByKind(JOINTS)]] = Field(default_factory=dict)
    camera: Camera | None = None
    cameras: dict[str, Camera] = Field(default_factory=dict)
    background: Annotated[Vector3, COLOUR] = (0.9, 0.9, 0.9)
    lights: dict[str, Annotated[Light, ByKind(LIGHTS)]] = Field(default_factory=dict)
    shading: Literal["colour", "lambert", "phong", "blinn-phong"] = "colour"

    @classmethod
    def known_keys(cls) -> list[str]:
        return [*super().known_keys(), "ground"]

    @classmethod
    def prepare(cls, given: dict[str, Any]) -> dict[str, Any]:
        if "ground" not in given or "grounds" in given:
            return given
        return {"grounds" if k == "ground" else k: {k: v} if k == "ground" else v for k, v in given.items()}

    @classmethod
    def faults(cls, given) -> Iterator[tuple[Place, str]]:
        keys = ("bodies", "grounds", "obstacles", "contacts", "attachments", "joints", "cameras", "lights")
        groups = {key: given[key] for key in keys if isinstance(given.get(key), Mapping)}
        for group, members in groups.items():
            for name in members:
                if not isinstance(name, str) or not NAME.fullmatch(name):
                    yield (group,), f"the name {shown(name)} needs a letter first, then letters, digits, `_` or `-`."
                elif name in TAKEN:
                    yield (group, name), f"the name `{name}` belongs to the scene itself; choose another."
        for group, other, what in (
            ("grounds", "bodies", "body"),
            ("obstacles", "bodies", "body"),
            ("obstacles", "grounds", "ground"),
        ):
            for name in [n for n in groups.get(group, ()) if n in groups.get(other, ())]:
                yield (group, name), f"a {what} is called `{name}` too; choose another name."
        if groups.get("cameras") and "camera" not in given:
            yield ("cameras",), "stands without `camera`; the first camera is `camera`, further ones stand here."
        if groups.get("bodies") == {}:
            yield ("bodies",), "is empty; give at least one body."
        if "ground" in given and "grounds" in given:
            yield ("ground",), "stands beside `grounds`; move it in there."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not self.name.isprintable():
            yield ("name",), f"got {shown(self.name)}; expected one line of characters that can be printed."
        laws = sorted({surface.law for surface in self.surfaces.values()})
        if len(laws) > 1:
            where = "grounds" if len({ground.law for ground in self.grounds.values()}) > 1 else "obstacles"
            yield (where,), f"follow different laws ({', '.join(laws)}); give all the same."
        elif laws:
            wrong, right = ("damping", "dissipation") if laws[0] == "continuous" else ("dissipation", "damping")
            for name, body in self.bodies.items():
                at, own = (("contact",), body.contact) if isinstance(body, Soft) else ((), body)
                if isinstance(own, Rigid | OwnContact) and getattr(own, wrong) is not None:
                    yield ("bodies", name, *at, wrong), f"the law `{laws[0]}` has no `{wrong}`; give `{right}`."
        for key in ("contacts", "attachments"):
            if getattr(self, key) and self.timing.integrator == "implicit":
                yield (key,), "need the integrator semi-implicit; got 'implicit', which takes soft bodies one by one."
            for name, link in getattr(self, key).items():
                yield from (((key, name, *place), words) for place, words in link.among(self.bodies))
        yield from conflicts_of(self.joints, self.bodies, self.contacts, self.attachments)
        wrong = [*twice(self.contacts, self.bodies), *mixed(self.contacts, self.attachments, self.bodies)]
        yield from ((("contacts", name, "between"), words) for name, words in wrong)
        pushes = [(name, push) for name, body in self.bodies.items() for push in getattr(body, "pushes", ())]
        for name, _ in [(n, p) for n, p in pushes if p.late and (self.timing.rate != 1 or self.timing.offset)]:
            yield ("timing",), f"`rate` or `offset` moves the windows of `{name}`; only blows at 0 go with them."
        soft = [name for name, body in self.bodies.items() if isinstance(body, Soft)]
        if soft and self.timing.integrator == "rk4":
            yield ("timing", "integrator"), f"got 'rk4'; the soft body `{soft[0]}` needs semi-implicit or implicit."
        hard = [name for name in self.bodies if name not in soft]
        if hard and self.timing.integrator == "implicit":
            yield ("timing", "integrator"), f"got 'implicit', which only soft bodies take; `{hard[0]}` is none."

    @property
    def surfaces(self) -> dict[str, Contact]:
        """Grounds, then obstacles: all that bodies touch."""
        return {**self.grounds, **self.obstacles}

    @property
    def views(self) -> dict[str, Camera]:
        """All cameras by name; the first is "camera"."""
        return {**({"camera": self.camera} if self.camera else {}), **self.cameras}

    def view(self, name: str = "camera") -> Camera:
        """The camera of this name.

        Raises:
            InputError: If there is none.
        """
        if name not in self.views:
            known = f"; it has {', '.join(self.views)}." if self.views else ", nor any other; give it a `camera`."
            hint = did_you_mean(name, list(self.views)) or known
            raise InputError(f"the scene has no camera `{name}`{hint}")
        return self.views[name]

    @model_serializer(mode="wrap")
    def _without_empty(self, content):
        spare = ("cameras", "lights", "contacts", "attachments", "joints")
        return {key: value for key, value in content(self).items() if key not in spare or value}

    @classmethod
    def load(cls, path: str | Path) -> "Scene":
        """A scene from a YAML file.

        Raises:
            InputError: If there is no such file, it is not YAML, or it is no scene: one message with every mistake.
        """
        return yaml_io.load(cls, Path(path))

    @classmethod
    def library(cls, name: str) -> "Scene":
        """One of the scenes that come with gradsim, such as "cube" or "pendulum".

        Raises:
            InputError: If there is none of that name.
        """
        return yaml_io.load(cls, yaml_io.library(name))

    @classmethod
    def parse(cls, content: Any, source: str = "the scene", folder: str | Path = ".") -> "Scene":
        """A scene from nested dictionaries with the keys of a scene file.

        Args:
            content: Stays as it is.
            source: What to call it in the message.
            folder: Paths of meshes and pictures count from there.

        Raises:
            InputError: One message with every mistake.
        """
        return yaml_io.parse(cls, content, source, Path(folder))

    def save(self, path: str | Path) -> None:
        """Write it as YAML, whole or not at all; loading it gives the same scene bit for bit.

        Paths of meshes and pictures are written relative to the file.
        """
        yaml_io.save(self, Path(path))
