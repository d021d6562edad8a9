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
from gradsim.scene.recordings.motion import Motion
from gradsim.scene.region import AnyRegion, region_errors


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
        motion: Vertices that follow a recording; of rods only, and by implicit steps.
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
    motion: Motion | None = None
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
        if self.motion is not None:
            yield from self._motion_errors(self.motion, rest)

    def _motion_errors(self, motion: Motion, rest: np.ndarray) -> Iterator[tuple[Place, str]]:
        vertices = motion.vertices
        if self.kind != "rod":
            yield (
                ("motion",),
                f"is given for a {self.kind}; only vertices of rods can follow a recording: pin them instead.",
            )
        elif max(vertices) >= len(rest):
            yield ("motion", "vertices"), f"got {max(vertices)}; the body has {len(rest)} vertices, counted from 0."
        elif shared := sorted({int(k) for region in self.pinned for k in region.of(rest)} & set(vertices)):
            yield ("motion", "vertices"), f"got {shared[0]}, which is pinned; leave it out of `pinned`."

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
