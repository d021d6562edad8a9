"""From a scene to its twin: the description that all formats are written from."""

import itertools

import numpy as np

from gradsim.scene.body import Pendulum, Rigid
from gradsim.scene.cloth import Cloth
from gradsim.scene.contact import LAWS
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.exporters.links import add_rigid_bodies
from gradsim.scene.exporters.orientation import orientation_of, turn_to
from gradsim.scene.exporters.solids import lumps_of, sheet_of
from gradsim.scene.exporters.swings import add_double_pendulum, add_pendulum
from gradsim.scene.exporters.twin import Static, Twin, View
from gradsim.scene.ground import Ground
from gradsim.scene.interactions import BodyContact
from gradsim.scene.scene import Scene
from gradsim.scene.soft_body import Soft
from gradsim.scene.solid import Solid

FLOOR = (0.7, 0.7, 0.68)
PAIR = ("stiffness", "dissipation", "friction_stiffness", "friction")


def twin_of(scene: Scene) -> Twin:
    """Description of a scene for other engines, at its start, with notes on what none of them can express."""
    twin = Twin(scene.name, np.array(scene.gravity, np.float64), fps=scene.timing.fps, frames=scene.timing.frames)
    add_rigid_bodies(scene, twin)
    for name, body in scene.bodies.items():
        if isinstance(body, Pendulum):
            add_pendulum(name, body, twin)
        elif isinstance(body, DoublePendulum):
            add_double_pendulum(name, body, twin)
        elif isinstance(body, Solid):
            twin.solids[name], notes = lumps_of(name, body)
            twin.notes += notes
        elif isinstance(body, Cloth):
            twin.solids[name], notes = sheet_of(name, body)
            twin.notes += notes
        elif isinstance(body, Soft):
            twin.soft[name] = body
    twin.statics += [_static(name, surface) for name, surface in scene.surfaces.items()]
    for name, camera in scene.views.items():
        K, R, t = camera.matrices()
        twin.views.append(View(name, camera.size, K, R, t))
    for name, contact in scene.contacts.items():
        _add_pairs(scene, name, contact, twin)
    twin.notes += _unsaid(scene)
    return twin


def _static(name: str, surface) -> Static:
    if isinstance(surface, Ground):
        normal = np.array(surface.normal) / np.linalg.norm(surface.normal)
        color = tuple(surface.visible.colour) if surface.visible else FLOOR
        return Static(name, "plane", (), surface.height * normal, turn_to(normal).as_quat(), color, surface)
    kind, size = ("box", surface.size) if surface.size else ("sphere", (surface.radius,))
    position = np.array(surface.position, np.float64)
    return Static(
        name, kind, tuple(map(float, size)), position, orientation_of(surface).as_quat(), tuple(surface.colour), surface
    )


def _add_pairs(scene: Scene, name: str, contact: BodyContact, twin: Twin) -> None:
    names = contact.names(scene.bodies)
    if not all(isinstance(scene.bodies[n], Rigid) for n in names):
        twin.notes.append(f"contacts.{name}: contact of soft bodies with one another or with rigid ones.")
        return
    numbers = {key: getattr(contact, key) for key in PAIR}
    twin.pairs += [(a, b, numbers) for a, b in itertools.combinations(names, 2)]


def _unsaid(scene: Scene) -> list[str]:
    """Sentences on what a scene has that no format expresses."""
    notes = []
    if scene.surfaces:
        surface = next(iter(scene.surfaces.values()))
        notes.append(
            f"contact law `{surface.law}`: its number `{LAWS[surface.law]}` and the sliding speed below which friction is "
            "viscous have no exact counterpart."
        )
    timing = scene.timing
    if timing.rate != 1 or timing.offset:
        notes.append(f"timing: frame k of the video is at {timing.offset:g} + {timing.rate:g} k/{timing.fps:g} s.")
    notes += [f"attachments.{name}: vertices of `{a.body}` held by `{a.to}`." for name, a in scene.attachments.items()]
    for name, channel in scene.channels.items():
        what = "drives" if channel.drives else "reads"
        notes.append(
            f"channels.{name}: a signal of a log that {what} the {channel.quantity} of `{channel.joint}`, with scale {channel.scale:g}, "
            f"offset {channel.offset:g}, delay {channel.delay:g} s."
        )
    for name, marker in scene.markers.items():
        notes.append(f"markers.{name}: a point on `{marker.body}`.")
    notes += [f"lights.{name}: a light of kind {light.kind}." for name, light in scene.lights.items()]
    for name, ground in scene.grounds.items():
        if ground.visible and ground.visible.texture:
            notes.append(f"`{name}`: its texture; the model has its color.")
    for name, obstacle in scene.obstacles.items():
        if obstacle.material is not None:
            notes.append(f"`{name}`: its texture and reflectance; the model has its color.")
    for name, view in scene.views.items():
        if view.matrices()[0][0, 1]:
            notes.append(f"`{name}`: the skew of its pixels.")
    return notes
