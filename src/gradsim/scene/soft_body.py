"""Base class of soft bodies: initial state, pinned vertices, anchors, impulses, contact, color."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_serializer

from gradsim.errors import InputError
from gradsim.scene.body import BLUE, FULL_TURN, UNIT_QUATERNION, BodyNode, drop_key, non_default_keys
from gradsim.scene.contact import DAMPING, DISSIPATION, FRICTION, FRICTION_STIFFNESS, STIFFNESS
from gradsim.scene.material import COLOR, Material
from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Quantity, Vector3, Vector4, positive, vector
from gradsim.scene.recordings.motion import Motion, Motions
from gradsim.scene.region import AnyRegion, region_errors

MAX_START_DISTANCE = 0.1  # of the first sample of a recording from the start of its vertex, in sizes of the body,
MAX_START_SIGMAS = 5.0  # and in standard deviations of its noise


class VertexImpulse(Node):
    """External impulse on a soft body at time 0.

    Attributes:
        impulse: Impulse [N s], world frame, distributed in proportion to the masses of the vertices.
        point: Point of application from the center of mass of the vertices, body frame [m]. Off-center impulses add a
            rotation as for a rigid body, so that the start is free of deformation.
        region: Vertices that receive it; by default all free ones.
    """

    after_start: ClassVar[bool] = False  # as in `Push`, like the next two
    at: ClassVar[float] = 0.0
    window: ClassVar[None] = None

    impulse: Annotated[Vector3, vector("N s")] = Field(description="the impulse [x, y, z] in N s")
    point: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    region: AnyRegion | None = None


class ContactOverrides(Node):
    """Contact parameters of a soft body, per vertex, which override those of grounds and obstacles.

    Attributes:
        stiffness: Normal force per depth, k_e [N/m].
        dissipation: Loss of a bounce, a [s/m], law `continuous`.
        damping: Normal force per speed of approach, k_d [N s/m], the other laws.
        friction_stiffness: Regularization of Coulomb friction: viscous coefficient up to the limit by `friction`, the
            paper's k_f [N s/m].
        friction: Coefficient of friction, μ.
    """

    stiffness: Annotated[float | None, STIFFNESS] = None
    dissipation: Annotated[float | None, DISSIPATION] = None
    damping: Annotated[float | None, DAMPING] = None
    friction_stiffness: Annotated[float | None, FRICTION_STIFFNESS] = None
    friction: Annotated[float | None, FRICTION] = None


class Anchor(Node):
    """Springs from vertices to their initial positions in the world, shifted by `offset`.

    Attributes:
        region: Anchored vertices; by default all.
        stiffness: Stiffness of each spring [N/m].
        damping: Damping of each spring [N s/m].
        offset: Shift of the anchor points [m].
        along: Direction of one-dimensional springs, which keep vertices in planes across it, such as y for a
            two-dimensional body. By default the springs act in all directions.
    """

    region: AnyRegion | None = None
    stiffness: Annotated[float, Quantity("N/m", lower=0.0, positive=True)] = Field(
        description="the stiffness of each spring in N/m"
    )
    damping: Annotated[float, Quantity("N s/m", lower=0.0, positive=True)] = 0.0
    offset: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    along: Annotated[Vector3 | None, vector("")] = None

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        if self.along is not None and not any(self.along):
            yield ("along",), "got a direction of length 0; expected one such as [0, 1, 0]."


class Soft(BodyNode):
    """A deformable body of vertices.

    Attributes:
        position: Initial position of the center of the rest shape [m].
        quat_xyzw: Orientation, rest shape to world, or
        rotation_vector: the same as axis times angle [rad].
        velocity: Initial velocity of all vertices [m/s].
        angular_velocity: Initial angular velocity about the center of the rest shape, world frame [rad/s].
        pinned: Regions of fixed vertices.
        motion: Vertices that follow a recording, or several such.
        anchors: Springs to points of the world.
        pushes: Impulses at time 0.
        scale: Scale of the shape, at rest and at the start. A parameter with gradients only where it is given.
        rest_length_factor: Rest lengths over those of the shape, with the same initial state and mass. A parameter with
            gradients only where it is given; ropes and nets always have it.
        contact: Overrides of contact parameters.
        collision: Collision geometry: `vertices`, the outer ones, or `none`.
        colour: RGB.
        material: Texture and reflectance; by default plain and matte.
    """

    if TYPE_CHECKING:
        kind: str  # each kind of soft body has its literal

    by_time: ClassVar[tuple[str, ...]] = ()  # the keys of `by_element` with optional values per frame interval

    position: Annotated[Vector3, vector("m")] = (0.0, 0.0, 0.0)
    quat_xyzw: Annotated[Vector4, UNIT_QUATERNION] = (0.0, 0.0, 0.0, 1.0)
    rotation_vector: Annotated[Vector3, vector("rad", lower=-FULL_TURN, upper=FULL_TURN)] = (0.0, 0.0, 0.0)
    velocity: Annotated[Vector3, vector("m/s")] = (0.0, 0.0, 0.0)
    angular_velocity: Annotated[Vector3, vector("rad/s")] = (0.0, 0.0, 0.0)
    pinned: tuple[AnyRegion, ...] = ()
    motion: Motions = ()
    anchors: tuple[Anchor, ...] = ()
    pushes: tuple[VertexImpulse, ...] = ()
    scale: Annotated[float | None, positive("")] = None
    rest_length_factor: Annotated[float | None, positive("")] = None
    contact: ContactOverrides | None = None
    collision: Literal["vertices", "none"] = "vertices"
    colour: Annotated[Vector3, COLOR] = BLUE
    material: Material | None = None

    @classmethod
    def faults(cls, raw) -> Iterator[tuple[Place, str]]:
        if len(non_default_keys(cls, raw, ("quat_xyzw", "rotation_vector"))) == 2:
            yield (), "got `quat_xyzw` and `rotation_vector`; give one of them."

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        try:
            rest = self.rest_vertices
        except InputError as error:
            yield ("shape",), str(error)
            return
        regions = [(("pinned", k), region) for k, region in enumerate(self.pinned)]
        regions += [(("pushes", k, "region"), push.region) for k, push in enumerate(self.pushes) if push.region]
        regions += [(("anchors", k, "region"), anchor.region) for k, anchor in enumerate(self.anchors) if anchor.region]
        for place, region in regions:
            yield from region_errors(place, region, rest)
        taken = {
            int(k): "pinned"
            for region in self.pinned
            if not [*region_errors((), region, rest)]
            for k in region.of(rest)
        }
        for k, motion in enumerate(self.motion):
            yield from self._motion_errors(("motion", k), motion, rest, taken)

    def _motion_errors(
        self, place: Place, motion: Motion, rest: np.ndarray, taken: dict[int, str]
    ) -> Iterator[tuple[Place, str]]:
        """Report vertices that do not exist, or that something else holds; add its own to those that are `taken`."""
        key = "region" if motion.region else "vertices"
        try:
            vertices = motion.of(rest).tolist()
        except InputError as error:
            yield (*place, key), str(error)
            return
        if shared := sorted(taken.keys() & set(vertices)):
            yield (*place, key), f"got vertex {shared[0]}, which is {taken[shared[0]]}; leave it out of one of them."
        if motion.positions and len(motion.positions[0]) != len(vertices):
            yield (
                (*place, "positions"),
                f"have {len(motion.positions[0])} points each; expected {len(vertices)}, as in its region.",
            )
        elif motion.positions:
            start = self._start(rest[vertices])
            distance = np.linalg.norm(motion.start - start, axis=1)
            limit = max(
                MAX_START_DISTANCE * np.ptp(rest, 0).max() * (self.scale or 1.0), MAX_START_SIGMAS * motion.noise
            )
            if distance.max() > limit:
                far = int(distance.argmax())
                at = ", ".join(f"{c:.4g}" for c in start[far])
                limits = f"expected at most {limit:.4g} m: place the body there."
                yield (
                    (*place, "positions"),
                    f"begin {distance[far]:.4g} m from the start of vertex {vertices[far]}, ({at}); {limits}",
                )
        taken |= dict.fromkeys(vertices, "in another motion")

    def _start(self, rest: np.ndarray) -> np.ndarray:
        """Some vertices at the start (k, 3) [m], from those at rest."""
        x, theta = rest * (self.scale or 1.0), np.array(self.rotation_vector)
        half = np.linalg.norm(theta) / 2
        u, w = np.array(self.quat_xyzw[:3]), self.quat_xyzw[3]
        if half:  # one of both is given
            u, w = np.sin(half) * theta / (2 * half), np.cos(half)
        return np.array(self.position) + x + 2 * np.cross(u, np.cross(u, x) + w * x)

    @property
    def motion_arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Array parameters of recordings, as in `arrays`: a row for each time, of positions for each vertex."""
        counts = [len(one.times) * (len(one.positions[0]) if one.positions else 1) for one in self.motion]
        turns = [len(one.times) for one in self.motion if one.poses]
        arrays = {"motion_offset": ((sum(counts), 3), "sample")} if counts else {}
        return arrays | ({"motion_rotation": ((sum(turns), 3), "sample")} if turns else {})

    @property
    def rest_vertices(self) -> np.ndarray:
        """Vertices at rest (n, 3) [m], relative to the center of the rest shape.

        Raises:
            InputError: If the mesh of the shape is invalid.
        """
        raise NotImplementedError

    @property
    def arrays(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Array parameters by name: shape, and noun of a row."""
        raise NotImplementedError

    @property
    def by_element(self) -> dict[str, int]:
        """Parameters with optional values per element in a rollout, and the number of elements."""
        raise NotImplementedError

    @model_serializer(mode="wrap")
    def _one_orientation(self, content):
        values = drop_key(content(self), "quat_xyzw" if any(self.rotation_vector) else "rotation_vector")
        first = {key: values[key] for key in ("kind", "shape") if key in values}
        return first | {key: value for key, value in values.items() if value not in ((), {}, []) and key not in first}


def elasticity_errors(raw, pairs: tuple[tuple[str, ...], ...], partial: bool = False) -> Iterator[tuple[Place, str]]:
    """Report unless the elastic moduli are given by exactly one group of keys.

    Args:
        raw: Content before validation.
        pairs: Groups, such as ("mu", "lam") and ("young", "poisson").
        partial: Allow an incomplete group or none, as in a region of a body.
    """
    groups = [group for group in pairs if any(key in raw for key in group)]
    alternatives = " or ".join(_names(group) for group in pairs)
    if len(groups) > 1:
        yield (), f"got {_names([k for group in groups for k in group if k in raw])}; give either {alternatives}."
    elif not groups and not partial:
        yield (), f"got no elastic moduli; give {alternatives}."
    elif groups and not partial:
        missing = [key for key in groups[0] if key not in raw]
        if missing:
            got = _names([k for k in groups[0] if k in raw])
            yield (), f"got {got} without {_names(missing)}; give {alternatives}."


def _names(keys: Sequence[str]) -> str:
    return " and ".join(f"`{key}`" for key in keys)
