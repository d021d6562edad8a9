"""An MJCF model in progress."""

from dataclasses import dataclass, field

from gradsim.geometry.mesh import Mesh
from gradsim.scene.exporters.contact import Law, Soft
from gradsim.scene.exporters.twin import Twin


@dataclass
class Draft:
    """A model in progress.

    Attributes:
        twin: The twin.
        meshes: Mesh files by name.
        notes: What the format cannot say.
        qpos, qvel, ctrl: State of the keyframe.
        laws: Contact numbers of pairs that collide (`contacts`).
    """

    twin: Twin
    meshes: dict[str, Mesh] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    qpos: list[float] = field(default_factory=list)
    qvel: list[float] = field(default_factory=list)
    ctrl: list[float] = field(default_factory=list)
    laws: dict[tuple[str, str], tuple[Law, Soft]] = field(default_factory=dict)
