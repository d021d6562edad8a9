"""A body put where it should be, undeformed: what the pictures of a goal show; and the scene without bodies."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsim.control.goal import Truth
from gradsim.control.plant import Episode
from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import project
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import NEAR, Silhouettes


@torch.no_grad()
def placed(
    model: Model,
    body: str,
    place: Sequence[float] | None,
    shift: Sequence[float] | None,
    rotation_vector: Sequence[float] | None = None,
    frame: int = -1,
) -> tuple[Trajectory, Truth]:
    """One frame with a body at a place, the others where they start; and the truth of it.

    Args:
        model: The model.
        body: The body's name.
        place: Its position [m], or
        shift: that from where it starts [m].
        rotation_vector: In place of the scene's; None leaves it.
        frame: Of the truth.

    Raises:
        InputError: If the body has no position.
    """
    key = f"{body}.position"
    if key not in model.kinds:
        raise InputError(f"`{body}` has no position to be placed at; give `pictures` of the goal.")
    start = model.get_parameter(key).detach()
    there = start.new_tensor(place) if place is not None else start + start.new_tensor(shift or (0.0, 0.0, 0.0))
    given = {key: there[None]}
    if rotation_vector is not None:
        given[f"{body}.rotation_vector"] = start.new_tensor(rotation_vector)[None]
    seen = model.rollout(given, 1)
    x = seen[body]["x"]
    centre = Episode(seen, x.new_empty(1, 0, 0)).centre(body)[0, 0]
    return seen, Truth(body, centre, x[0, 0] if x.ndim == 4 else None, frame)


@torch.no_grad()
def empty_scene(model: Model, cameras: Sequence[str]) -> list[Tensor | None]:
    """What each camera sees without the bodies, (3, height, width); None: its plain background."""
    if not model.scenery:
        return [None] * len(cameras)
    values, vertices, parts = model.values(), [], []
    for thing in model.scenery:
        vertices.append(thing.vertices(values)[:, None])
        parts.append(thing.part(parts[-1].vertices.stop if parts else 0))
    surface = Surface(torch.cat(vertices, 2), tuple(parts))
    return [Renderer.of(model.scene, camera=name)(surface, values)[0, 0] for name in cameras]


@torch.no_grad()
def where(sees: Silhouettes, seen: Trajectory, body: str) -> str:
    """Where a camera has a body that is not in its picture, in words."""
    part = next(part for part in seen.surface.parts if part.name == body)
    points = seen.surface.vertices[:1, 0, part.vertices]
    pixels, depth = project(points, *sees.matrices(points, seen.values))
    if depth.min() < NEAR:
        return "it reaches behind the camera"
    column, row = pixels[0].mean(0).tolist()
    return (
        f"its middle is at column {column:.0f} and row {row:.0f} of {sees.camera.width} × {sees.camera.height} px, "
        f"{depth.mean():.3g} m away"
    )
