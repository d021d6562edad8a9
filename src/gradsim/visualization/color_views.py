"""Images of a fit of colors: the texture from six sides, and the video next to the model and what is left."""

from collections.abc import Sequence

import numpy as np
import torch

from gradsim.geometry.image_io import to_bytes
from gradsim.identification.colors.interior import InteriorColors
from gradsim.identification.colors.response import mean_of_blocks
from gradsim.identification.colors.surface_points import PixelList, Pose, body_named, surface_points, visible_faces
from gradsim.identification.colors.texture import Texture
from gradsim.physics.trajectory import Trajectory
from gradsim.render.camera import look_at
from gradsim.render.silhouettes import Silhouettes
from gradsim.visualization.sheets import sheet

SIDE = 120  # [px] of a view
VIEW_DISTANCE = 12.0  # distance of the views, in radii of the body
SIDES = {"+x": (1, 0, 0), "-x": (-1, 0, 0), "+y": (0, 1, 0), "-y": (0, -1, 0), "+z": (0, 0, 1), "-z": (0, 0, -1)}
HIDDEN_COLOR, BACKGROUND_COLOR = (0.82, 0.84, 0.88), (1.0, 1.0, 1.0)  # of what no frame shows, and around the body
RESIDUAL_GAIN = 4.0  # times which residuals are drawn
MARGIN = 12  # [px] around the bodies
MIN_FRAME_HEIGHT = 240  # [px] height of a frame, at least


@torch.no_grad()
def texture_views(trajectory: Trajectory, bodies: Sequence[str], textures: Sequence[Texture]) -> np.ndarray:
    """Textures seen along the axes of their bodies, one row for each (height, width, 3) uint8.

    Args:
        trajectory: Has the bodies.
        bodies: Their names.
        textures: Of each.
    """
    images, labels = [], []
    for name, texture in zip(bodies, textures, strict=True):
        for side, direction in SIDES.items():
            images.append(to_bytes(_view(trajectory, name, texture, direction)))
            labels.append(f"{name} {side}")
    return sheet(images, len(SIDES), labels)


def _view(trajectory: Trajectory, name: str, texture: Texture, direction: Sequence[int]) -> np.ndarray:
    """View (SIDE, SIDE, 3) in [0, 1] of a body from a direction of its frame."""
    body = body_named(trajectory, name)
    radius = body.rest.norm(dim=-1).max().item()
    eye, up = [VIEW_DISTANCE * radius * d for d in direction], (0.0, 1.0, 0.0) if direction[2] else (0.0, 0.0, 1.0)
    camera = look_at(eye, (0.0, 0.0, 0.0), up, 2 * np.arcsin(1.06 / VIEW_DISTANCE), SIDE, SIDE)
    silhouettes = Silhouettes(camera)
    row, column = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    place = torch.stack([column.flatten(), row.flatten()], 1).double() + 0.5
    pixels = PixelList(torch.zeros(len(place), dtype=torch.int64), place)
    origin, identity = torch.zeros(1, 3).double(), torch.tensor([[0.0, 0.0, 0.0, 1.0]]).double()
    pose = Pose(origin, identity, torch.tensor(1.0).double(), camera.K, camera.R, camera.t, None)
    faces = visible_faces(body, pose, {}, pixels, silhouettes)
    visible = surface_points(body, pose, pixels, silhouettes, faces)
    hit = (visible.slant > 0.02).numpy() if faces is None else (faces >= 0).numpy()
    points = visible.points.numpy()
    known = texture.grid.interpolate(points, texture.shown[:, None].astype(float))[:, 0] > 0.5
    known |= texture.known is not None
    albedo = texture.albedo_values(points)
    color = np.where(known[:, None], albedo, HIDDEN_COLOR)
    return np.where(hit[:, None], color, BACKGROUND_COLOR).reshape(SIDE, SIDE, 3).clip(0, 1)


def color_frames(frames: np.ndarray, colors: InteriorColors, textures: Sequence[Texture]) -> np.ndarray:
    """Frames (frames, height, 3 width, 3) uint8 about the bodies: the video, the model inside of outlines, and what is left.

    Args:
        frames: Of the video (frames, height, width, 3) uint8.
        colors: Pixels that are compared.
        textures: Of each body.
    """
    factor = colors.silhouettes.binning
    image = frames / 255.0
    if factor > 1:
        image = mean_of_blocks(image, factor, textures[0].pixels.gamma)
    model, rest, places = image.copy(), np.full_like(image, 0.5), []
    for body, texture in zip(colors.bodies, textures, strict=True):
        frame = body.pixels.frame.numpy()
        column, row = body.pixels.place.floor().long().numpy().T
        model[frame, row, column] = texture.predicted_values
        rest[frame, row, column] = 0.5 + RESIDUAL_GAIN * (body.color - texture.predicted_values)
        places.append(np.stack([row, column], 1))
    low = np.maximum(np.concatenate(places).min(0) - MARGIN, 0)
    high = np.concatenate(places).max(0) + 1 + MARGIN
    region = (slice(None), slice(low[0], high[0]), slice(low[1], high[1]))
    both = np.concatenate([image[region], model[region], rest[region]], 2)
    times = max(1, -(-MIN_FRAME_HEIGHT // both.shape[1]))
    return to_bytes(both.clip(0, 1)).repeat(times, 1).repeat(times, 2)
