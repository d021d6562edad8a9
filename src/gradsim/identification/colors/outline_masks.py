"""Masks of textured bodies, measured about the outlines of a model in place of where the video differs from the background.

    α = (I − B)·(F − B) / |F − B|²,      weight ∝ |F − B|²

A texture has the color of the background somewhere, and what differs from the background has gaps there, which move with the texture.
About an outline that is known to a pixel or two there are no gaps to fill: F is the color that the body has there, and pixels at which it is that of the
background have no weight (matting by known colors: Smith & Blinn 1996). Without a texture, F is the color a few pixels further inside. With one it is that of the
texture, which other frames show from the front, and what the pixels further inside have more than it.
"""

import numpy as np
import torch

from gradsim.identification.colors.film import Film
from gradsim.identification.colors.interior import InteriorColors
from gradsim.identification.colors.surface_points import (
    PixelList,
    body_named,
    pose_of,
    surface_points,
    visible_faces,
)
from gradsim.identification.colors.texture import Texture, harmonics
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.light_masks import LightMasks
from gradsim.physics.trajectory import Trajectory
from gradsim.render.silhouettes import Silhouettes
from gradsim.video.background import subtract_background
from gradsim.video.soft_edges import CORE

KNOWN = 0.9  # share of the weights of interpolation that are of nodes of a texture which some pixel shows
FAULTS = ("mask_faults", "mask_advice")  # notes on the masks that are replaced
BEYOND = 4.0  # [px] outside of an outline up to which it has the color of the nearest pixel inside
BLURRED = 3.0  # [px] standard deviation of the means of what pixels inside have more than the texture


def remeasured(data: Masks, film: Film, trajectory: Trajectory, colors: InteriorColors | None = None) -> Masks:
    """Masks of a video of a static camera about the outlines of a trajectory of one world.

    Args:
        data: Masks that are replaced.
        film: The video, with its background.
        trajectory: The motion, to a pixel or two.
        colors: Of the bodies; None: those a few pixels inside of outlines.
    """
    silhouettes = data.silhouettes
    full = type(silhouettes)(silhouettes.camera, silhouettes.background, silhouettes.lens)
    if silhouettes.binning > 1:
        height, width = film.frames.shape[1:3]
        full = Silhouettes(silhouettes.camera.resized(width, height), silhouettes.background, silhouettes.lens)
    values = {key: v[:1] for key, v in trajectory.values.items()}
    with torch.no_grad():
        bodies = full.union(trajectory.surface, values)[0].numpy() > 0.5
    B, hidden = film.empty(bodies)
    inside = None if colors is None else colors_inside(colors, film, trajectory, full)
    gamma, gain = film.gamma or 1.0, film.gain or 1.0
    s = subtract_background(film.frames, B, None, data.outline_noise, bodies, 0.0, gamma, inside)
    weight = np.where(hidden, 0.0, s.weight * film.used)
    masks = Masks(torch.tensor(np.where(hidden, 0.0, s.masks)), data.sigma, full, torch.tensor(weight), data.loss)
    masks.notes = {key: note for key, note in data.notes.items() if key not in FAULTS}
    masks.outline_noise = data.outline_noise
    if s.edges is not None and (film.gamma is not None or film.gain is not None):
        masks = LightMasks(masks, s.edges.at_gain(gamma, gain), gamma, gain)
    return masks if silhouettes.binning == 1 else masks.binned(silhouettes.binning)


@torch.no_grad()
def colors_inside(colors: InteriorColors, film: Film, trajectory: Trajectory, silhouettes: Silhouettes) -> np.ndarray:
    """Colors (frames, height, width, 3) of bodies inside of their outlines and a few pixels beyond; NaN where the texture is not known."""
    from scipy import ndimage

    values = {key: v[:1] for key, v in trajectory.values.items()}
    covers = silhouettes.masks(trajectory.scene_surface, values)[0].numpy() > 0.5
    parts = [part.name for part in trajectory.scene_surface.parts]
    predicted = np.full((*film.frames.shape[:3], 3), np.nan)
    for body, texture in zip(colors.bodies, colors.textures(trajectory, colors.frames), strict=True):
        _predict(predicted, covers[:, parts.index(body.name)], body.name, texture, trajectory, silhouettes)
    inside = np.full_like(predicted, np.nan)
    for frame, image, target in zip(film.frames, predicted, inside, strict=True):
        visible = ~np.isnan(image[..., 0])
        if not visible.any():
            continue
        core = ndimage.binary_erosion(visible, np.ones((3, 3), bool), CORE)
        rest = np.where(core[..., None], frame / 255 - image, 0.0)
        amount = ndimage.gaussian_filter(core.astype(float), BLURRED)
        more = np.stack([ndimage.gaussian_filter(rest[..., c], BLURRED) for c in range(3)], -1)
        corrected = image + more / np.maximum(amount, 0.02)[..., None]
        place = np.asarray(ndimage.distance_transform_edt(~visible, return_distances=False, return_indices=True))
        near = np.linalg.norm(place - np.indices(visible.shape), axis=0) <= BEYOND
        row, column = place
        target[near] = corrected[row[near], column[near]]
    return inside


def _predict(
    predicted: np.ndarray,
    covered: np.ndarray,
    name: str,
    texture: Texture,
    trajectory: Trajectory,
    silhouettes: Silhouettes,
) -> None:
    """Write the colors of one body into images (frames, height, width, 3) where it covers them and its texture is known."""
    frame, row, column = np.nonzero(covered)
    place = torch.tensor(np.stack([column + 0.5, row + 0.5], 1)).double()
    pixels = PixelList(torch.tensor(frame), place)
    values = {key: v[:1] for key, v in trajectory.values.items()}
    system, pose = body_named(trajectory, name), pose_of(trajectory, name, silhouettes)
    faces = visible_faces(system, pose, values, pixels, silhouettes)
    surface = surface_points(system, pose, pixels, silhouettes, faces)
    points = surface.points.numpy()
    known = texture.grid.interpolate(points, texture.shown[:, None].astype(float))[:, 0] > KNOWN
    if faces is not None:
        known &= (faces >= 0).numpy()
    color = texture.lit_values(points, harmonics(surface.normals.numpy()), frame)
    predicted[frame[known], row[known], column[known]] = color[known]
