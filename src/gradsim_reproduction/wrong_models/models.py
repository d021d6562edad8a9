"""The models of Table 4, left: the right one, and those that lack something, as scenes and what to put in place of it.

A rigid object becomes a soft one by a fan of tetrahedra from one point to every face, which fills it exactly where that
point sees all of its inside; a soft solid becomes a rigid one by its outside. So shape, mass and the known push are the
same. Moments of inertia are not quite: those of a soft body are of masses lumped on its vertices, for a fan about 5/4 of
the solid's, and for bricks of two cells 3/2. That is part of what such a model gets wrong.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog

from gradsim.dataset import Sample, soft
from gradsim.dataset.sample import with_parameters
from gradsim.errors import InputError
from gradsim.geometry import tet_io, tet_mesh
from gradsim.geometry.mesh import Mesh
from gradsim.geometry.tet_mesh import TetMesh
from gradsim.identification.comparison.candidates import edit_scene
from gradsim.identification.unknowns import Space, Unknown
from gradsim.physics.model import Model
from gradsim.runtime.atomic import atomic_path
from gradsim.scene import Scene

FREE = ("damping", "friction_stiffness", "friction")
CONTACT = {  # ranges of the contact of a kind, where it is unknown
    "rigid": {"damping": (1.0, 200.0), "friction_stiffness": (1.0, 200.0), "friction": (0.2, 1.0)},
    **{kind: {key: soft.GROUND[key] for key in FREE} for kind in ("deformable", "cloth")},
}
SOFT = {key: sum(ends) / 2 for key, ends in soft.SOLID_MODULI.items()} | {"damping": sum(soft.VISCOSITY) / 2}
FRAMES = 30  # of a clip: enough for touch and slide
SURE = 1.2  # times as many steps as are stable, for bodies of another type
ROUND = 0.2  # mean ratio of the flattest tetrahedron: flatter ones take thousands of steps a frame
SWAPS = {"rigid_as_deformable": "rigid", "deformable_as_rigid": "deformable"}


@dataclass(frozen=True)
class ModelSetup:
    """Fit of one object for one row of the table.

    Args:
        scene: The scene as the model has it.
        unknowns: The mass.
        candidates: Other models, as for `gradsim.identification.comparison.candidates`.
    """

    scene: Scene
    unknowns: tuple[str, ...]
    candidates: Mapping[str, Mapping[str, Any]]


def model_setup(row: str, one: Sample, folder: Path) -> ModelSetup:
    """The model of a row of the table, and what may be chosen in its place.

    Args:
        row: "perfect", "friction", "elasticity", "photorealistic" or a member of `SWAPS`.
        one: The object.
        folder: Gets meshes of bodies of another type.
    """
    scene, mass = scene_and_mass(one)
    ranges = {f"ground.{key}": ends for key, ends in CONTACT[one.kind].items()}
    free = {"contact free": {"unknowns": [f"{name}:{low:g}:{high:g}" for name, (low, high) in ranges.items()]}}
    if row == "friction":
        return ModelSetup(_changed(scene, {"ground.friction": 0.0, "ground.friction_stiffness": 0.0}), (mass,), free)
    if row == "elasticity":
        return ModelSetup(_changed(scene, {"ground.damping": 0.0}), (mass,), free)
    if row in SWAPS:
        swap = as_deformable if one.kind == "rigid" else as_rigid
        other, density = swap(scene, mass, folder)
        original = scene.model_dump(exclude_unset=True)["bodies"]["body"]
        right = {"body": original, "timing.substeps": scene.timing.substeps, "unknowns": [mass]}
        return ModelSetup(other, (density,), {f"as {one.kind}": right})
    return ModelSetup(scene, (mass,), {})


def scene_and_mass(one: Sample) -> tuple[Scene, str]:
    """The scene with all of the truth but the mass, and the mass as an unknown."""
    others = [Unknown.parse(text) for text in one.unknowns[1:]]
    scene = with_parameters(one.scene, {u.name: one.truth[u.name] for u in others})
    timing = scene.timing.model_copy(update={"frames": FRAMES})
    return scene.model_copy(update={"timing": timing}), one.unknowns[0]


def bulk(scene: Scene) -> float:
    """Mass of the body over its unknown: 1, or the volume [m³] or area [m²] that its density goes with."""
    body: Any = scene.bodies["body"]
    if body.kind == "solid":
        return float(body.rest.volumes.sum())
    if body.kind == "cloth":
        a, b, c = np.moveaxis(body.rest.vertices[body.rest.faces], 1, 0)
        return float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2)
    return 1.0


def mass_in(scene: Scene, values: Mapping[str, float]) -> float:
    """The mass of the body [kg] that a fit found."""
    return next(values[name] for name in ("body.mass", "body.density") if name in values) * bulk(scene)


def as_deformable(scene: Scene, mass: str, folder: Path) -> tuple[Scene, str]:
    """A rigid body as a soft one of the same shape, and its density as the unknown.

    Its material is that of the middle of the ranges of soft samples.
    """
    body: Any = scene.bodies["body"]
    mesh = fan(body.shape.mesh())
    if mesh is None:
        raise InputError(f"no fan of tetrahedra fills `{scene.name}`: no point sees all of its inside.")
    path = Path(folder) / f"{scene.name}.tet"
    path.parent.mkdir(parents=True, exist_ok=True)
    tet_io.save(mesh, path)
    volume = float(mesh.volumes.sum())
    low, high = _range(mass)
    density = f"body.density:{low / volume:.12g}:{high / volume:.12g}"
    content = _shared_content(scene) | {"kind": "solid", "shape": {"mesh": {"file": str(path)}}, **SOFT}
    content |= {"density": body.mass / volume}
    return _stepped(_changed(scene, {"body": content}), density), density


def as_rigid(scene: Scene, density: str, folder: Path) -> tuple[Scene, str]:
    """A soft solid as a rigid one of the same shape, and its mass as the unknown."""
    body: Any = scene.bodies["body"]
    volume = bulk(scene)
    path = Path(folder) / f"{scene.name}.obj"
    path.parent.mkdir(parents=True, exist_ok=True)
    used, faces = np.unique(tet_mesh.surface(body.rest), return_inverse=True)
    lines = [f"v {x!r} {y!r} {z!r}\n" for x, y, z in body.rest.vertices[used].tolist()]
    lines += [f"f {a} {b} {c}\n" for a, b, c in (faces.reshape(-1, 3) + 1).tolist()]
    with atomic_path(path) as draft:
        draft.write_text("".join(lines))
    low, high = _range(density)
    mass = f"body.mass:{low * volume:.12g}:{high * volume:.12g}"
    content = _shared_content(scene) | {"shape": {"mesh": {"file": str(path)}}, "mass": body.density * volume}
    return _stepped(_changed(scene, {"body": content}), mass), mass


def fillable(one: Sample) -> bool:
    """True if a rigid object can be taken for a soft one in steps that are not too many."""
    body: Any = one.scene.bodies["body"]
    filled = fan(body.shape.mesh())
    return filled is not None and filled.quality.min() > ROUND


def fan(mesh: Mesh) -> TetMesh | None:
    """Tetrahedra from a point inside to every face of a closed mesh; None where no point sees all of the inside.

    The point is the one farthest from all planes of faces: the centre of the largest ball in the kernel.
    """
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    limits = np.concatenate([normal, np.ones((len(normal), 1))], 1)
    size = np.ptp(mesh.vertices, 0).max()
    solution = linprog([0, 0, 0, -1], limits, (normal * a).sum(1), bounds=[(None, None)] * 3 + [(0, size)])
    if not solution.success or solution.x[3] < 1e-2 * size:
        return None
    centre = len(mesh.vertices)
    tets = np.concatenate([np.full((len(mesh.faces), 1), centre), mesh.faces], 1)
    return TetMesh(np.concatenate([mesh.vertices, solution.x[None, :3]]), tets)


def _range(text: str) -> tuple[float, float]:
    """Ends of the range of NAME:LOW:HIGH."""
    _, low, high = text.split(":")
    return float(low), float(high)


def _shared_content(scene: Scene) -> dict:
    """Scene content that a body of another type shares: start, push, colour."""
    body: Any = scene.bodies["body"]
    keys = ("position", "rotation_vector", "velocity", "angular_velocity", "colour")
    pushes = [{"impulse": list(p.impulse), "point": list(p.point)} for p in body.pushes]
    return {key: list(getattr(body, key)) for key in keys} | {"pushes": pushes}


def _changed(scene: Scene, changes: Mapping[str, Any]) -> Scene:
    return edit_scene(scene, [], changes)[0]


def _stepped(scene: Scene, unknown: str) -> Scene:
    """With as many steps as are surely stable for every mass."""
    probe = Model(scene, substeps=10**5)
    space = Space(scene, [unknown])
    values = probe.values(space.values(torch.stack([space.low, space.high])))
    stable = min(system.stable_step(values) for system in probe.systems)
    substeps = max(64, math.ceil(SURE / (scene.timing.fps * stable)))
    timing = scene.timing.model_copy(update={"substeps": substeps})
    return scene.model_copy(update={"timing": timing})
