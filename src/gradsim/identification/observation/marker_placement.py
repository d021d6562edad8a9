"""Points of an image put on the bodies of a scene: where the rays through them first meet a surface."""

from collections.abc import Mapping

import numpy as np
import torch

from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.render.camera import from_scene
from gradsim.render.optics import rays
from gradsim.scene.body import Rigid
from gradsim.scene.interactions import Marker

MIN_DETERMINANT = 1e-12  # determinant of a triangle along the ray, relative to its size


def place_markers(scene, points: Mapping[str, np.ndarray], camera: str = "camera") -> dict[str, Marker]:
    """Markers of points on rigid bodies, at the scene's start; points that meet none are left out.

    On a body that is not rigid a marker is the nearest vertex of the triangle.

    Args:
        scene: Scene with the bodies and the camera.
        points: Pixels (u, v) by name, pixel centers at +0.5.
        camera: Name of the camera.
    """
    with torch.no_grad():
        start = Model(scene).rollout(frames=2).at([0])
        vertices = start.surface.vertices[0, 0].double()
    view, pixels = from_scene(scene.view(camera)), torch.tensor(np.array(list(points.values()), float).reshape(-1, 2))
    optics = view.optics
    lens, fisheye = (None, False) if optics is None else (optics.coefficients, optics.fisheye is not None)
    origin, directions = view.centre.numpy(), rays(view.K, view.R, pixels, lens, fisheye).numpy()
    nearest = np.full(len(directions), np.inf)
    owner: list[tuple[str, int] | None] = [None] * len(directions)
    for part in start.parts:
        corners = vertices[part.vertices][part.faces].numpy()
        for k, (distance, face) in enumerate(_first_hits(origin, directions, corners)):
            if distance < nearest[k]:
                nearest[k], owner[k] = distance, (part.name, face)
    markers = {}
    for k, name in enumerate(points):
        place = owner[k]
        if place is not None:
            markers[name] = _marker(scene, start, place, torch.tensor(origin + nearest[k] * directions[k]))
    return markers


def _marker(scene, start, place: tuple[str, int], hit: torch.Tensor) -> Marker:
    name, face = place
    if isinstance(scene.bodies[name], Rigid):
        state = start[name]
        away = rotation.rotate(rotation.conjugate(state["q"][0, 0]), hit - state["x"][0, 0])
        point = away / start.values[f"{name}.scale"][0]
        return Marker(body=name, point=tuple(point.tolist()))
    part = next(part for part in start.parts if part.name == name)
    corners = part.faces[face]
    distance = (start.surface.vertices[0, 0, part.vertices][corners] - hit).norm(dim=1)
    return Marker(body=name, vertex=int(corners[distance.argmin()]))


def _first_hits(origin: np.ndarray, directions: np.ndarray, corners: np.ndarray) -> list[tuple[float, int]]:
    """Distance and triangle of each ray's first hit (Möller and Trumbore 1997); infinity where there is none."""
    a, e1, e2 = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    hits = []
    for ray in directions:
        p = np.cross(ray, e2)
        det = (e1 * p).sum(1)
        valid = np.abs(det) > MIN_DETERMINANT * np.linalg.norm(e1, axis=1) * np.linalg.norm(e2, axis=1)
        inverse = 1 / np.where(valid, det, 1.0)
        s = origin - a
        u = (s * p).sum(1) * inverse
        q = np.cross(s, e1)
        v = (q @ ray) * inverse
        t = (e2 * q).sum(1) * inverse
        t = np.where(valid & (u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0), t, np.inf)
        hits.append((float(t.min(initial=np.inf)), int(t.argmin()) if len(t) else 0))
    return hits
