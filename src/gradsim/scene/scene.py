"""Scene: bodies, surroundings, cameras and clock of a simulation. Data only; SI units, z up."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_serializer
from pydantic_core import core_schema

from gradsim.errors import InputError
from gradsim.runtime.html import table
from gradsim.scene import yaml_io
from gradsim.scene.body import Pendulum, Push, Rigid
from gradsim.scene.camera import CameraSpec
from gradsim.scene.channels.channel import Channel, LogFile, channel_conflicts
from gradsim.scene.cloth import Cloth
from gradsim.scene.contact import Contact
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.ground import Ground
from gradsim.scene.interactions import Attachment, BodyContact, Marker, duplicate_pairs, mixed_systems
from gradsim.scene.joint import JOINTS, WORLD, AnyJoint, joint_conflicts
from gradsim.scene.light import LIGHTS, Light
from gradsim.scene.material import COLOR
from gradsim.scene.node import ByKind, Node, Place, did_you_mean, mistake, quote
from gradsim.scene.obstacle import Obstacle
from gradsim.scene.quantity import UNIT, Count, Increasing, Quantity, Uncertain, Vector3, plain, vector
from gradsim.scene.recordings.pose import PoseMotion
from gradsim.scene.rods.rod import Rod
from gradsim.scene.soft_body import ContactOverrides, Soft, VertexImpulse
from gradsim.scene.solid import Solid
from gradsim.scene.springs import Springs

Body = Rigid | Pendulum | DoublePendulum | Solid | Cloth | Springs | Rod
KINDS: dict[str, type[Body]] = {  # by `kind` in a file
    "rigid": Rigid,
    "pendulum": Pendulum,
    "double_pendulum": DoublePendulum,
    "solid": Solid,
    "cloth": Cloth,
    "springs": Springs,
    "rod": Rod,
}


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")  # a dot separates the parts of a parameter's name
RESERVED_NAMES = (
    "gravity",
    "camera",
    "cameras",
    "timing",
    "background",
    "lights",
    "contacts",
    "attachments",
    "joints",
    "markers",
    "channels",
    "scene",
    "systems",
)  # keys of the scene or model itself
RIGID_INTEGRATORS = ("semi-implicit", "rk4")  # by kind of matter, as in `physics/integrators.py`
SOFT_INTEGRATORS = ("semi-implicit", "verlet", "nystrom", "implicit", "midpoint")
IMPLICIT = ("implicit", "midpoint")


class Timing(Node):
    """The clock.

    Attributes:
        fps: Frames per second [1/s].
        frames: Number of frames; the first is the start.
        substeps: Steps per frame, or `auto`: the number that stiffness, damped impacts and, by `rk4`, fast spin require.
        tolerance: With `auto`, how far half the step may move a fitted unknown, in standard deviations. A fit halves the
            steps until it is below; 0.2 is far less than the noise of any single pixel. Infinity (`.inf`) for a video that
            was simulated with the very steps of this scene: then nothing is asked about them.
        integrator: `rk4` for rigid bodies; `verlet` (velocity Verlet), `nystrom` (Nyström's fourth-order method) or, if
            stiff, `implicit` (Euler) or `midpoint` (the implicit midpoint rule, second order) for soft ones; `semi-implicit` (Euler) for both. `auto`, for each body: `rk4` if rigid,
            `nystrom` for springs, `midpoint` for rods, `verlet` for solids and cloth, `semi-implicit` where `contacts` or `attachments` have a
            soft body other than rods in them. The motion of pendulums is always by Runge–Kutta methods.
        rate: Simulated seconds per second of this clock: 0.5 for a video slowed down to half the stated speed.
        offset: Simulated time of the first frame after the start [s].
        stamps: Times of the frames after the first [s], of a video whose rate varies; `fps` is their mean rate then.
    """

    fps: Annotated[float, Quantity("1/s", lower=0.0, above=True)] = 30.0
    frames: Annotated[int, Count(1, 100_000)] = 60
    substeps: Annotated[int | Literal["auto"], Count(1, 1_000_000, ("auto",))] = "auto"
    tolerance: Annotated[float, Quantity("", lower=0.0, above=True, infinite=True)] = 0.2
    integrator: Literal["auto", "semi-implicit", "rk4", "verlet", "nystrom", "implicit", "midpoint"] = "auto"
    rate: Annotated[float, Quantity("", lower=0.0, above=True, positive=True)] = 1.0
    offset: Annotated[float, Quantity("s", lower=0.0)] = 0.0
    stamps: Annotated[tuple[float, ...] | None, Increasing(Quantity("s"))] = None

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        stamps = raw.get("stamps")
        if not isinstance(stamps, list | tuple) or len(stamps) < 2:
            return raw
        mean: dict[str, float] = {"frames": len(stamps)}
        if isinstance(stamps[-1], int | float) and stamps[-1] > 0:
            mean["fps"] = (len(stamps) - 1) / stamps[-1]
        return mean | raw

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.stamps is not None and self.frames > len(self.stamps):
            yield ("frames",), f"got {self.frames}, and {len(self.stamps)} `stamps`; give one for each frame."

    @model_serializer(mode="wrap")
    def _without_stamps(self, content):
        return {key: value for key, value in content(self).items() if key != "stamps" or value is not None}

    def time(self, frame: int) -> float:
        """Time of a frame after the first, by the clock of the video [s]; beyond the stamps they go on at the mean rate."""
        if self.stamps is None:
            return frame / self.fps
        last = len(self.stamps) - 1
        return self.stamps[min(frame, last)] + max(0, frame - last) / self.fps

    @property
    def intervals(self) -> tuple[float, ...] | None:
        """Durations between frames [s]; None where all are equal."""
        return None if self.stamps is None else tuple(b - a for a, b in pairwise(self.stamps))


class _Gravity:
    """Annotate gravity: a vector, or its strength g for (0, 0, −g)."""

    unit = "m/s^2"

    def __get_pydantic_core_schema__(self, source, handler):
        whole = vector(self.unit).__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_wrap_validator_function(self._read, whole)

    def __get_pydantic_json_schema__(self, core, handler) -> dict[str, Any]:
        forms = [*Quantity(self.unit, lower=0.0).json_schema()["anyOf"], vector(self.unit).json_schema()]
        return {"anyOf": forms, UNIT: self.unit}

    def _read(self, raw: Any, read_vector) -> Vector3:
        raw = plain(raw)
        if not isinstance(raw, str | int | float):
            return read_vector(raw)
        strength = Quantity(self.unit).read(raw)
        if strength < 0:
            raise mistake(f"got {quote(raw)}; a single number is the downward acceleration: write {-strength:g}.")
        return 0.0, 0.0, -strength


class Scene(Node):
    """Description of a simulation.

    Attributes:
        name: Title, one line.
        gravity: Acceleration [m/s²]; a single number g in a file means (0, 0, −g).
        timing: Clock.
        bodies: Bodies by name.
        grounds: Planes by name. In a file, `ground` is short for a single one of that name.
        obstacles: Static balls and boxes by name. All grounds and obstacles share one contact law. Bodies collide with
            grounds and obstacles; collisions between bodies, and of soft bodies with themselves, need `contacts`.
        contacts: Contacts by name: of soft bodies with themselves, one another, or rigid balls and boxes, and of rigid
            bodies with one another.
        attachments: Attachments by name: vertices of soft bodies held by rigid bodies.
        joints: Joints by name: hinges, slides, ball joints and rigid links between rigid bodies, or to the world.
        markers: Points fixed on bodies by name, whose tracks can be observed.
        channels: Signals of a log by name: sensors of joints, and what drives their motors.
        log: The log that `channels` are read from; its motors drive the joints in every simulation.
        priors: Numbers that are known with an uncertainty, by dotted name, as `1000 ± 50` in SI units or
            `1000 ± 5 %`. A fit takes them as unknowns with a Gaussian prior ([uncertainty](../guides/uncertainty.md)); the scene's own values are
            those of everything else.
        camera: First camera; required for images.
        cameras: Further cameras by name, with the same frames.
        background: Background color, RGB.
        lights: Lights by name. Without lights, every surface has its own color.
        shading: Shading model: `colour` (own color of each surface, without lights), `lambert` (matte), or with
            highlights of Phong (`phong`) or Blinn (`blinn-phong`).
    """

    name: str = "scene"
    gravity: Annotated[Vector3, _Gravity()] = (0.0, 0.0, -9.81)
    timing: Timing = Timing()
    bodies: dict[str, Annotated[Body, ByKind(KINDS, "rigid")]] = Field(description="at least one body by name")
    grounds: dict[str, Ground] = Field(default_factory=dict)
    obstacles: dict[str, Obstacle] = Field(default_factory=dict)
    contacts: dict[str, BodyContact] = Field(default_factory=dict)
    attachments: dict[str, Attachment] = Field(default_factory=dict)
    joints: dict[str, Annotated[AnyJoint, ByKind(JOINTS)]] = Field(default_factory=dict)
    markers: dict[str, Marker] = Field(default_factory=dict)
    channels: dict[str, Channel] = Field(default_factory=dict)
    log: LogFile | None = None
    priors: dict[str, Annotated[tuple[float, float], Uncertain()]] = Field(default_factory=dict)
    camera: CameraSpec | None = None
    cameras: dict[str, CameraSpec] = Field(default_factory=dict)
    background: Annotated[Vector3, COLOR] = (0.9, 0.9, 0.9)
    lights: dict[str, Annotated[Light, ByKind(LIGHTS)]] = Field(default_factory=dict)
    shading: Literal["colour", "lambert", "phong", "blinn-phong"] = "colour"

    @classmethod
    def known_keys(cls) -> list[str]:
        return [*super().known_keys(), "ground"]

    @classmethod
    def prepare(cls, raw: dict[str, Any]) -> dict[str, Any]:
        if "ground" not in raw or "grounds" in raw:
            return raw
        return {"grounds" if k == "ground" else k: {k: v} if k == "ground" else v for k, v in raw.items()}

    @classmethod
    def shorthands(cls, properties: Mapping[str, Any]) -> dict[str, Any]:
        return {"ground": {**properties["grounds"]["additionalProperties"], "description": "The only ground."}}

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        keys = (
            "bodies",
            "grounds",
            "obstacles",
            "contacts",
            "attachments",
            "joints",
            "markers",
            "channels",
            "cameras",
            "lights",
        )
        groups = {key: raw[key] for key in keys if isinstance(raw.get(key), Mapping)}
        for group, members in groups.items():
            for name in members:
                if not isinstance(name, str) or not NAME.fullmatch(name):
                    yield (
                        (group,),
                        f"got the name {quote(name)}; expected a letter or `_`, then letters, digits, `_` or `-`.",
                    )
                elif name in RESERVED_NAMES:
                    yield (group, name), f"the name `{name}` is reserved; choose another."
        for group, other, what in (
            ("grounds", "bodies", "body"),
            ("obstacles", "bodies", "body"),
            ("obstacles", "grounds", "ground"),
        ):
            for name in [n for n in groups.get(group, ()) if n in groups.get(other, ())]:
                yield (group, name), f"a {what} is also called `{name}`; choose another name."
        if groups.get("cameras") and "camera" not in raw:
            yield ("cameras",), "is given without `camera`; give the first camera as `camera`, further ones here."
        if groups.get("bodies") == {}:
            yield ("bodies",), "is empty; give at least one body."
        if "ground" in raw and "grounds" in raw:
            yield ("ground",), "is given together with `grounds`; move it into `grounds`."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if not self.name.isprintable():
            yield ("name",), f"got {quote(self.name)}; expected one line of printable characters."
        laws = sorted({surface.law for surface in self.surfaces.values()})
        if len(laws) > 1:
            group = "grounds" if len({ground.law for ground in self.grounds.values()}) > 1 else "obstacles"
            yield (group,), f"have different contact laws ({', '.join(laws)}); give all the same `law`."
        elif laws:
            wrong, right = ("damping", "dissipation") if laws[0] == "continuous" else ("dissipation", "damping")
            for name, body in self.bodies.items():
                at, overrides = (("contact",), body.contact) if isinstance(body, Soft) else ((), body)
                if isinstance(overrides, Rigid | ContactOverrides) and getattr(overrides, wrong) is not None:
                    yield ("bodies", name, *at, wrong), f"the law `{laws[0]}` has no `{wrong}`; give `{right}`."
        refused = self.timing.integrator not in (
            "auto",
            *RIGID_INTEGRATORS,
            *(IMPLICIT if self._holds_rods_alone else ()),
        )
        for key in ("contacts", "attachments"):
            if getattr(self, key) and refused:
                got = quote(self.timing.integrator)
                yield (
                    (key,),
                    f"need `timing.integrator: semi-implicit`; got {got}, which supports single soft bodies only, and rods with rigid bodies.",
                )
            for name, link in getattr(self, key).items():
                yield from (((key, name, *place), words) for place, words in link.body_conflicts(self.bodies))
        for name, marker in self.markers.items():
            yield from ((("markers", name, *place), words) for place, words in marker.body_conflicts(self.bodies))
        yield from self._rod_conflicts()
        yield from self._motion_conflicts()
        yield from joint_conflicts(self.joints, self.bodies, self.contacts, self.attachments)
        yield from channel_conflicts(self.channels, self.joints)
        if self.log is not None and not self.channels:
            yield (
                ("log",),
                "is given without `channels`; say what its columns mean, such as {q: {joint: elbow, quantity: angle}}.",
            )
        wrong = [
            *duplicate_pairs(self.contacts, self.bodies),
            *mixed_systems(self.contacts, self.attachments, self.bodies),
        ]
        yield from ((("contacts", name, "between"), words) for name, words in wrong)
        for name, pushes in self.pushes.items():
            clock = self.timing
            if any(push.after_start for push in pushes) and (clock.rate != 1 or clock.offset or clock.stamps):
                yield (
                    ("timing",),
                    f"`rate`, `offset` or `stamps` would shift the later pushes of `{name}`; use them with impulses at time 0 only.",
                )
        soft = [name for name, body in self.bodies.items() if isinstance(body, Soft)]
        if soft and self.timing.integrator not in ("auto", *SOFT_INTEGRATORS):
            way = f"{', '.join(SOFT_INTEGRATORS[:-1])} or {SOFT_INTEGRATORS[-1]}"
            yield (
                ("timing", "integrator"),
                f"got {quote(self.timing.integrator)}; the soft body `{soft[0]}` needs {way}.",
            )
        beside = set().union(*self.links) if self._holds_rods_alone and self.timing.integrator in IMPLICIT else set()
        hard = [name for name in self.bodies if name not in soft and name not in beside]
        if hard and self.timing.integrator not in ("auto", *RIGID_INTEGRATORS):
            got, way = quote(self.timing.integrator), "auto" if soft else " or ".join(RIGID_INTEGRATORS)
            yield (
                ("timing", "integrator"),
                f"got {got}, which supports soft bodies only; `{hard[0]}` is not soft: choose {way}.",
            )

    def _rod_conflicts(self) -> Iterator[tuple[Place, str]]:
        rods = {name: body for name, body in self.bodies.items() if isinstance(body, Rod)}
        for name, contact in self.contacts.items():
            names = contact.names(self.bodies)
            lines = [n for n in names if isinstance(self.bodies.get(n), Rod | Springs)]
            if len(lines) == len(names) and rods.keys() & set(lines):
                yield (
                    ("contacts", name),
                    (
                        f"is between {' and '.join(f'`{n}`' for n in dict.fromkeys(lines))}, which have no triangles; a rod "
                        "touches rigid balls and boxes, solids and cloth, and neither itself nor other rods or springs."
                    ),
                )

    def _motion_conflicts(self) -> Iterator[tuple[Place, str]]:
        for name, body in self.bodies.items():
            met = [link for link in self.links if name in link]
            if isinstance(body, Soft) and body.motion and met:
                other = min(met[0] - {name}, default=name)
                words = (
                    "bodies with a motion meet grounds and obstacles only. Remove one of them, or pin these vertices."
                )
                yield (
                    ("bodies", name, "motion"),
                    f"is given for a body that a contact or attachment links to `{other}`; {words}",
                )

    def integrator_of(self, body: str) -> str:
        """Integrator of a body: `timing.integrator`, or what `auto` there takes (see `Timing`)."""
        is_soft = isinstance(self.bodies.get(body), Soft)
        if self.timing.integrator in IMPLICIT and not is_soft:
            return "semi-implicit"
        if self.timing.integrator != "auto":
            return self.timing.integrator
        soft = {name for name, node in self.bodies.items() if isinstance(node, Soft)}
        if soft and any(body in link and link & soft for link in self.links):
            return "midpoint" if is_soft and self._holds_rods_alone else "semi-implicit"
        if not is_soft:
            return "rk4"
        return {"springs": "nystrom", "rod": "midpoint"}.get(self.bodies[body].kind, "verlet")

    @property
    def _holds_rods_alone(self) -> bool:
        """True if all soft bodies in contacts and attachments are rods."""
        linked = set().union(*self.links)
        soft = [node for name, node in self.bodies.items() if name in linked and isinstance(node, Soft)]
        return bool(soft) and all(isinstance(node, Rod) for node in soft)

    @property
    def links(self) -> list[set[str]]:
        """Names of the bodies that each contact, attachment or joint connects; one name for self-contact, and of a body with a recording."""
        return [
            *(set(contact.names(self.bodies)) for contact in self.contacts.values()),
            *({attachment.body, attachment.to} for attachment in self.attachments.values()),
            *(set(joint.between) - {WORLD} for joint in self.joints.values()),
            *({name} for name in self.recorded),
        ]

    @property
    def recorded(self) -> dict[str, PoseMotion]:
        """Recording that each rigid body follows which has one."""
        bodies = {name: body for name, body in self.bodies.items() if isinstance(body, Rigid)}
        return {name: body.motion for name, body in bodies.items() if body.motion is not None}

    @property
    def surfaces(self) -> dict[str, Contact]:
        """Static collision surfaces: grounds, then obstacles."""
        return {**self.grounds, **self.obstacles}

    @property
    def pushes(self) -> dict[str, tuple[Push | VertexImpulse, ...]]:
        """Pushes of each body that has some."""
        return {name: pushes for name, body in self.bodies.items() if (pushes := getattr(body, "pushes", ()))}

    @property
    def views(self) -> dict[str, CameraSpec]:
        """All cameras by name; the first is "camera"."""
        return {**({"camera": self.camera} if self.camera else {}), **self.cameras}

    def view(self, name: str = "camera") -> CameraSpec:
        """Look up a camera by name.

        Raises:
            InputError: If the scene has no such camera.
        """
        if name not in self.views:
            known = (
                f"; it has {', '.join(self.views)}." if self.views else ", nor any other; add a `camera` to the scene."
            )
            hint = did_you_mean(name, list(self.views)) or known
            raise InputError(f"the scene has no camera `{name}`{hint}")
        return self.views[name]

    @model_serializer(mode="wrap")
    def _without_empty(self, content):
        optional = ("cameras", "lights", "contacts", "attachments", "joints", "markers", "channels", "log", "priors")
        return {key: value for key, value in content(self).items() if key not in optional or value}

    def _repr_html_(self) -> str:
        """Bodies and what surrounds them, for notebooks."""
        rows = [(name, body.kind) for name, body in self.bodies.items()]
        rows += [(name, "ground") for name in self.grounds] + [(name, "obstacle") for name in self.obstacles]
        rows += [(name, "joint") for name in self.joints]
        rows += [(name, "camera {}×{}".format(*camera.size)) for name, camera in self.views.items()]
        clock = f"{self.timing.frames} frames at {self.timing.fps:g} per second"
        return f"<p><b>{escape(self.name)}</b>: {clock}</p>" + table(("name", "kind"), rows)

    @classmethod
    def load(cls, path: str | Path) -> "Scene":
        """Load a scene from a YAML file.

        Raises:
            InputError: If the file is missing, is not YAML, or is not a valid scene: one message with all mistakes.
        """
        return yaml_io.load(cls, Path(path))

    @classmethod
    def library(cls, name: str) -> "Scene":
        """Load a scene of gradsim's library, such as "cube" or "pendulum"; `library_names` lists them.

        Raises:
            InputError: If the library has no such scene.
        """
        return yaml_io.load(cls, yaml_io.library(name))

    @classmethod
    def library_names(cls) -> list[str]:
        """Names of the scenes of gradsim's library, in order."""
        return [path.stem for path in yaml_io.library_files()]

    @classmethod
    def parse(cls, content: Any, source: str = "the scene", folder: str | Path = ".") -> "Scene":
        """Make a scene from nested dictionaries with the keys of a scene file.

        Args:
            content: Nested dictionaries, not modified.
            source: Name of the scene in messages.
            folder: Base of relative paths of meshes and images.

        Raises:
            InputError: If the content is not a valid scene: one message with all mistakes.
        """
        return yaml_io.parse(cls, content, source, Path(folder))

    def with_log(self, file: str | Path) -> "Scene":
        """The scene with another log, read by its channels.

        Raises:
            InputError: If the file does not exist or is another kind of file.
        """
        log = self.log.model_dump() if self.log else {}
        return Scene.parse({**self.model_dump(), "log": {**log, "file": file}}, self.name)

    def save(self, path: str | Path) -> None:
        """Write the scene as YAML, atomically; loading it returns the same scene bit for bit.

        Paths of meshes and images are written relative to the file.
        """
        yaml_io.save(self, Path(path))
