"""Scenes from MJCF, URDF and USD files, read by Newton's importers (extra `newton`).

Imported are rigid bodies and the joints between them, infinite planes, friction, gravity, initial velocities and
cameras. Other content is either an error or listed in `Imported.notes`; nothing is dropped silently.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry.mesh import Mesh
from gradsim.runtime.atomic import atomic_write
from gradsim.scene.importers import source_text
from gradsim.scene.importers.bodies import (
    Body,
    Frame,
    body_of,
    ground_of,
    merge,
    number,
    plain_name,
    spring_law,
    vector,
)
from gradsim.scene.importers.joints import joint_of
from gradsim.scene.joint import WORLD
from gradsim.scene.scene import Scene

FORMATS = {
    ".xml": "mjcf",
    ".mjcf": "mjcf",
    ".urdf": "urdf",
    ".usd": "usd",
    ".usda": "usd",
    ".usdc": "usd",
    ".usdz": "usd",
}
NEWTON = 'reading MJCF, URDF and USD needs Newton: pip install "gradsim[newton]".'
CONTACT = "contact: the file has no stiffness and damping of a spring law, so gradsim's defaults apply; set them in `grounds`."
SPRING_LAW = "contact of `{}`: stiffness, damping and friction of its material in the file, as the law `paper`."
PASS = "links pass through one another; add `contacts` to prevent it."
STRANGERS = {  # lists of a Newton builder that must be empty, with the name of their content
    "particle_q": "particles",
    "spring_indices": "springs",
    "tri_indices": "triangles of a cloth",
    "tet_indices": "tetrahedra of a soft body",
    "equality_constraint_type": "equality constraints",
    "muscle_start": "muscles",
}


@dataclass(frozen=True)
class Imported:
    """A scene from a file of another engine.

    Attributes:
        scene: The scene.
        notes: Approximations, assumptions and omissions, one line each.
    """

    scene: Scene
    notes: tuple[str, ...]


@dataclass
class _Draft:
    """Import in progress: content of the scene, unsupported elements, notes, and meshes to write."""

    content: dict[str, Any]
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    meshes: dict[str, Mesh] = field(default_factory=dict)


def load(
    path: str | Path, mesh_folder: str | Path | None = None, skip: bool = False, fixed_base: bool = False
) -> Imported:
    """Load a scene from an MJCF (.xml, .mjcf), URDF (.urdf) or USD (.usd, .usda, .usdc, .usdz) file.

    Args:
        path: File. Y-up USD stages are rotated to z up.
        mesh_folder: Folder for meshes, written as obj files that the scene refers to; required if the file has meshes.
        skip: Omit unsupported elements and list them in the notes, instead of raising an error.
        fixed_base: Fix the root of a URDF to the world, which the format cannot specify. A root without mass always is.

    Raises:
        InputError: If the file does not exist, it cannot be read, Newton is not installed, or the file has
            unsupported elements: one message with all of them.
    """
    path = Path(path)
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"{path} ends in none of {', '.join(FORMATS)}; give an MJCF, URDF or USD file.")
    if not path.is_file():
        raise InputError(f"the file {path} to import does not exist.")
    if kind != "usd":
        source_text.refuse_entities(path)
    builder, said = _read(path, kind, fixed_base)
    extras = source_text.extras(path, kind)
    draft = _Draft({"name": path.stem, "gravity": _gravity(builder, extras), "bodies": {}, "joints": {}, "grounds": {}})
    draft.notes += [*said, *extras.notes]
    draft.faults += [*_strangers(builder), *extras.faults]
    names = _bodies(builder, draft)
    _grounds(builder, kind, names, draft)
    cameras = dict(extras.cameras)
    if cameras:
        draft.content["camera"] = cameras.pop(next(iter(cameras)))
        draft.content["cameras"] = cameras
    _refuse(path, draft, skip)
    _write_meshes(path, draft, mesh_folder)
    return Imported(Scene.parse(draft.content, str(path)), tuple(dict.fromkeys(draft.notes)))


def _read(path: Path, kind: str, fixed_base: bool) -> tuple[Any, list[str]]:
    """Newton's builder, and the warnings of Newton."""
    try:
        import warp as wp

        wp.config.log_level = wp.LOG_ERROR
        import newton
    except ImportError as error:
        raise InputError(NEWTON) from error
    builder = newton.ModelBuilder()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            match kind:
                case "mjcf":
                    builder.add_mjcf(str(path), parse_sites=False)
                case "urdf":
                    builder.add_urdf(str(path), floating=not fixed_base)
                    if not fixed_base and builder.body_mass and builder.body_mass[0] <= 0:
                        builder = newton.ModelBuilder()
                        builder.add_urdf(str(path), floating=False)
                case _:
                    schemas = newton.usd
                    resolvers = [
                        schemas.SchemaResolverNewton(),
                        schemas.SchemaResolverPhysx(),
                        schemas.SchemaResolverMjc(),
                    ]
                    builder.add_usd(str(path), load_sites=False, schema_resolvers=resolvers)
    except ImportError as error:
        raise InputError(f"{path} needs a package that is not installed ({error}): pip install usd-core.") from error
    except Exception as error:  # readers of broken files raise errors of any kind
        raise InputError(f"{path} cannot be read as {kind.upper()}: {error}") from error
    return builder, [f"Newton: {w.message}" for w in caught if "eprecat" not in w.category.__name__]


def _gravity(builder, extras: source_text.Extras) -> list[float]:
    gravity = vector(builder.gravity)
    return extras.gravity if extras.gravity is not None and any(gravity) else gravity  # zero: switched off by a flag


def _strangers(builder) -> Iterator[str]:
    """Everything in the builder that is not a rigid body, shape or joint."""
    for attribute, words in STRANGERS.items():
        count = len(getattr(builder, attribute, ()))
        if count:
            yield f"{count} {words}; gradsim has rigid bodies."


def _bodies(builder, draft: _Draft) -> dict[int, str]:
    """Add all bodies and joints to the draft; return the names of the bodies by index."""
    import newton

    parts = merge(builder)
    if parts:
        labels = ", ".join(f"`{plain_name(builder.body_label[part])}`" for part in parts)
        draft.notes.append(f"{labels}: fixed to another link or the world, merged into it.")
    joints = {
        child: k
        for k, (kind, child) in enumerate(zip(builder.joint_type, builder.joint_child, strict=True))
        if kind != newton.JointType.FREE
    }
    names: dict[int, str] = {}
    bodies: dict[int, Body] = {}
    links = [body for body in range(len(builder.body_mass)) if body not in parts]
    for body in sorted(links, key=lambda b: len(_above(builder, b, joints))):
        name, joint = plain_name(builder.body_label[body]), joints.get(body)
        name = plain_name("root" if name == WORLD else name, taken=names.values())
        result = body_of(builder, body, name, held=joint is not None)
        parent = -1 if joint is None else builder.joint_parent[joint]
        if parent != -1 and parent not in names and not result.fault:
            result.fault = (
                f"body `{name}` is attached to `{plain_name(builder.body_label[parent])}`, which was not imported."
            )
        held = None
        if joint is not None and not result.fault:
            label = plain_name(builder.joint_label[joint], taken=draft.content["joints"])
            held = joint_of(builder, joint, label, {**names, body: name}, {**bodies, body: result})
            result.fault = held.fault
            result.notes += held.notes
        if result.fault:
            draft.faults.append(result.fault)
            continue
        draft.notes += result.notes
        if held is not None:
            result.content["quat_xyzw"] = held.quat_xyzw
            draft.content["joints"][label] = held.content
        names[body], bodies[body] = name, result
        draft.content["bodies"][name] = result.content
        if result.mesh is not None:
            draft.meshes[name] = result.mesh
    if draft.content["joints"]:
        draft.notes.append(PASS)
    return names


def _above(builder, body: int, joints: dict[int, int]) -> list[int]:
    """Ancestors of a body along its joints."""
    parents = []
    while body in joints and builder.joint_parent[joints[body]] != -1:
        body = builder.joint_parent[joints[body]]
        parents.append(body)
    return parents


def _grounds(builder, kind: str, names: dict[int, str], draft: _Draft) -> None:
    """Add all static planes to the draft, with the friction combined as the format defines."""
    import newton

    for shape in range(len(builder.shape_type)):
        if builder.shape_body[shape] != -1 or not builder.shape_flags[shape] & newton.ShapeFlags.COLLIDE_SHAPES:
            continue
        taken = {*names.values(), *draft.content["grounds"]}
        name, type_ = plain_name(builder.shape_label[shape], taken=taken), newton.GeoType(builder.shape_type[shape])
        if type_ != newton.GeoType.PLANE:
            draft.faults.append(
                f"the static {type_.name.lower()} `{name}`; the only static shapes that are imported are planes."
            )
            continue
        if any(builder.shape_scale[shape][:2]):
            draft.notes.append(f"`{name}` is a finite plane in the file and an infinite one in the scene.")
        ground_mu = builder.shape_material_mu[shape]
        pairs = {
            names[body]: (max(ground_mu, mu) if kind == "mjcf" else (ground_mu + mu) / 2)
            for body, shapes in builder.body_shapes.items()
            if body in names
            for mu in [max((builder.shape_material_mu[s] for s in shapes), default=ground_mu)]
        }
        friction = next(iter(pairs.values()), ground_mu)
        others = {n: f"{number(mu):g}" for n, mu in pairs.items() if abs(mu - friction) > 1e-6}
        if others:
            draft.notes.append(
                f"`{name}`: friction is {number(friction):g} for the first body and the scene, but the file has "
                f"{', '.join(f'{mu} for `{n}`' for n, mu in others.items())}."
            )
        law = spring_law(builder, shape)
        draft.content["grounds"][name] = ground_of(Frame.of(builder.shape_transform[shape]), friction) | law
        draft.notes.append(SPRING_LAW.format(name) if law else CONTACT)


def _refuse(path: Path, draft: _Draft, skip: bool) -> None:
    if draft.faults and not skip:
        raise InputError(
            "\n".join(
                [f"{path} has elements that gradsim does not support; remove them, or skip them (`--skip`):"]
                + [f"  {fault}" for fault in draft.faults]
            )
        )
    draft.notes += [f"left out: {fault}" for fault in draft.faults]
    if not draft.content["bodies"]:
        raise InputError(f"{path} has no rigid body that gradsim supports.")


def _write_meshes(path: Path, draft: _Draft, folder: str | Path | None) -> None:
    """Write meshes as obj files, to which the scene refers."""
    if not draft.meshes:
        return
    if folder is None:
        raise InputError(f"{path} has meshes ({', '.join(draft.meshes)}); give a `mesh_folder` to write them in.")
    folder = Path(folder)
    for name, mesh in draft.meshes.items():
        lines = [f"v {x!r} {y!r} {z!r}" for x, y, z in mesh.vertices.tolist()]
        lines += [f"f {a} {b} {c}" for a, b, c in (mesh.faces + np.int64(1)).tolist()]
        target = folder / f"{name}.obj"
        with atomic_write(target, "w") as file:
            file.write("\n".join(lines) + "\n")
        draft.content["bodies"][name]["shape"] = {"mesh": {"file": str(target.resolve())}}
