"""Soft solids and sheets of a twin in MJCF: a flex of tetrahedra or triangles, whose vertices are bodies on three slides each.

MuJoCo (documentation, "Computation", "Deformable objects") has linear tetrahedra with the law of Saint Venant and Kirchhoff, damped in
proportion to the elastic forces, with the masses of the bodies. Contact is that of vertices, as in the scene: small balls at those
outside, with a `pair` for each ground and obstacle, since the numbers of `solref` are per mass (`contact.py`).
"""

import xml.etree.ElementTree as xml
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from gradsim.scene.exporters.contact import fall_speed, law_of, normal_of, softened
from gradsim.scene.exporters.draft import Draft
from gradsim.scene.exporters.solids import Lumps
from gradsim.scene.exporters.text import element
from gradsim.scene.exporters.twin import Static, Twin

AXES = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
INERTIA_PER_MASS = 1e-4  # of a vertex, which never turns [m²]
RADIUS = 1e-6  # of the balls at vertices [m]


def add_solids(root: xml.Element, world: xml.Element, draft: Draft) -> None:
    """Add all soft solids: their vertices to the world, and their elements to a section `deformable`."""
    if not draft.twin.solids:
        return
    section = element(root, "deformable")
    for lumps in draft.twin.solids.values():
        names = [f"{lumps.name}_{k}" for k in range(len(lumps.vertices))]
        outside = set(lumps.faces.ravel().tolist()) if lumps.collides and draft.twin.statics else set()
        _vertices(world, lumps, names, outside, draft)
        flex = element(
            section,
            "flex",
            name=lumps.name,
            dim="2" if lumps.is_sheet else "3",
            body=" ".join(names),
            element=" ".join(map(str, np.asarray(lumps.cells).ravel().tolist())),
            radius=RADIUS,
            rgba=(*lumps.color, 1.0),
        )
        sheet = {"thickness": lumps.thickness, "elastic2d": "both" if lumps.bends else "stretch"}
        plane = sheet if lumps.is_sheet else {}
        element(flex, "elasticity", young=lumps.young, poisson=lumps.poisson, damping=lumps.damping_time, **plane)
        element(flex, "contact", contype="0", conaffinity="0", selfcollide="none")


def add_pairs(section: xml.Element, twin: Twin) -> None:
    """Add the contact of each outer vertex with each ground and obstacle, with numbers for its own mass."""
    for lumps in [lumps for lumps in twin.solids.values() if lumps.collides]:
        outside = np.unique(lumps.faces).tolist()
        centre, velocity = lumps.vertices.mean(0), lumps.velocities.mean(0)
        for static in twin.statics:
            law = law_of(static, lumps)
            speed = fall_speed(static, lumps.vertices[outside], centre, velocity, twin.gravity)
            share = float(lumps.mass.sum()) / _pressed(lumps, outside, static, law.stiffness, speed)
            whole = softened(law, share, speed)
            for k in outside:
                per_mass = {
                    key: getattr(whole, key) * share / lumps.mass[k] for key in ("stiffness", "damping", "sliding")
                }
                soft = replace(whole, **per_mass)
                ends = {"geom1": static.name, "geom2": f"{lumps.name}_{k}"}
                element(section, "pair", **ends, condim="3", **soft.attributes)


def _pressed(lumps: Lumps, outside: list[int], static: Static, stiffness: float, speed: float) -> float:
    """Number of vertices at the largest depth that hold as much energy as all when the body, unstrained, comes to rest.

    ½ M v² = ½ k Σ C_i²,   C_i = max(D − h_i, 0)   →   Σ C_i² / D²
    """
    heights = np.sort(lumps.vertices[outside] @ normal_of(static, lumps.vertices.mean(0)))
    heights = heights - heights[0]
    energy = float(lumps.mass.sum()) * speed**2 / stiffness
    excess = lambda depth: float(np.maximum(depth - heights, 0.0) @ np.maximum(depth - heights, 0.0)) - energy
    depth = float(brentq(excess, 0.0, np.sqrt(energy) * (1 + 1e-9)))  # pyright: ignore[reportArgumentType]  a number without `full_output`
    return (excess(depth) + energy) / depth**2


def _vertices(world: xml.Element, lumps: Lumps, names: list[str], outside: set[int], draft: Draft) -> None:
    """Add the vertices: bodies on slides, those outside with a small ball."""
    fixed = set(lumps.pinned.tolist())
    for k, name in enumerate(names):
        body = element(world, "body", name=name, pos=lumps.vertices[k])
        m = float(lumps.mass[k])
        element(body, "inertial", pos=np.zeros(3), mass=m, diaginertia=np.full(3, INERTIA_PER_MASS * m))
        if k in outside:
            element(body, "geom", name=name, type="sphere", size=RADIUS, contype="0", conaffinity="0", group="5")
        if k in fixed:
            continue
        for axis in AXES:
            element(body, "joint", type="slide", axis=axis)
        draft.qpos += [0.0, 0.0, 0.0]
        draft.qvel += lumps.velocities[k].tolist()
