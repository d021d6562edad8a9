"""Masks of a ball whose texture has the color of the background, in videos of another renderer."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gradsim.identification.colors.film import Film
from gradsim.identification.colors.interior import interior_colors
from gradsim.identification.colors.outline_masks import remeasured
from gradsim.identification.observation.base import Masks
from gradsim.identification.observation.from_video import _filled
from gradsim.identification.observation.light_masks import LightMasks
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim.video.background import subtract_background
from gradsim_reproduction.calibration import spin_videos
from gradsim_reproduction.calibration.spin_videos import FPS, RADIUS, SpinTruth

SIZE, FRAMES, FOCAL, DISTANCE = (72, 60), 10, 300.0, 2.0
OFF = 0.007  # [m] of the model's place: a pixel
TRUTH = SpinTruth(
    *("patches", (-0.02, 0.0, 1.0), (0.3, 0.0, 0.2), (3.0, -9.0, 5.0), FRAMES, FOCAL, (0.0, -DISTANCE, 1.0)),
    *(0.004, 18, (0.5, -0.6, 0.6), 0.0, 5),
)


@pytest.fixture(scope="module")
def film() -> Film:
    """A patch in four has the color of the background."""
    old = spin_videos.SIZE, spin_videos.PALETTE
    spin_videos.SIZE, spin_videos.PALETTE = SIZE, np.concatenate([[[0.32, 0.4, 0.34]], old[1][1:4]])
    try:
        frames, empty = spin_videos.render(TRUTH), spin_videos.empty(TRUTH)
    finally:
        spin_videos.SIZE, spin_videos.PALETTE = old
    used, plate = np.ones(frames.shape[:3], bool), np.median(empty, 0) / 255
    return Film(frames, used, None, False, True, plate)  # pyright: ignore[reportArgumentType]


def scene(off: float = 0.0, **camera) -> Scene:
    ball = {"kind": "rigid", "shape": {"sphere": {"radius": RADIUS}}, "mass": 0.4}
    look = {"eye": [0, -DISTANCE, 1], "target": [0, 0, 1]}
    x, y, z = TRUTH.position
    return Scene.parse(
        {
            "timing": {"fps": FPS, "frames": FRAMES},
            "gravity": [0, 0, -9.81],
            "camera": {"size": list(SIZE), "look_at": look, "focal": f"{FOCAL} px"} | camera,
            "bodies": {
                "ball": ball
                | {"position": [x + off, y, z], "velocity": list(TRUTH.velocity), "angular_velocity": list(TRUTH.spin)}
            },
        }
    )


def filmed(off: float = 0.0, **camera) -> tuple[Trajectory, Silhouettes]:
    one = scene(off, **camera)
    return Model(one).rollout({}), Silhouettes.of(one)


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def shift(data: Masks) -> np.ndarray:
    """Shift (frames, 2) [px] of masks from the truth, by least squares with their weights."""
    trajectory, silhouettes = filmed()
    exact = lambda dx, dz: silhouettes.union(_placed(trajectory, dx, dz).surface, trajectory.values)[0]
    h = 0.002
    px = h * FOCAL / DISTANCE
    X = torch.stack([(exact(h, 0) - exact(-h, 0)) / (2 * px), (exact(0, h) - exact(0, -h)) / (2 * px)], -1)
    w, r = data.weight[..., None], data.masks - exact(0, 0)
    A = torch.einsum("thwi,thwj->tij", w * X, X)
    return torch.linalg.solve(A, torch.einsum("thwi,thw->ti", w * X, r)).numpy()


def _placed(trajectory: Trajectory, dx: float, dz: float) -> Trajectory:
    state = trajectory.states["ball"]
    x = state["x"] + torch.tensor([dx, 0.0, dz]).double()
    return replace(trajectory, states={"ball": {**state, "x": x}})


def first_masks(film: Film, silhouettes: Silhouettes) -> Masks:
    """Convex hulls of what differs from the background."""
    s = subtract_background(film.frames, film.background, None, False)
    data = Masks(torch.tensor(_filled(s.masks)), 0.3, silhouettes, torch.tensor(s.weight))
    data.outline_noise = True
    return data


def test_gaps_of_a_texture_are_no_gaps_of_masks_about_an_outline(film):
    """The model is a pixel off. Shifts of 0.06 px are what edges of some 50 pixels with coverages that are off by a fifth come to."""
    trajectory, silhouettes = filmed(OFF)
    cut = first_masks(film, silhouettes)
    images, used = film.frames / 255, film.used
    colors = interior_colors(images, used, trajectory, ["ball"], silhouettes, 1, 2.0).with_exposures(trajectory)
    plain, textured = remeasured(cut, film, trajectory), remeasured(cut, film, trajectory, colors)
    hulls, inside, texture = (np.sqrt(np.square(shift(data)).mean()) for data in (cut, plain, textured))
    assert texture < 0.06 and texture < 0.5 * inside and texture < 0.4 * hulls


def test_pixels_that_no_frame_shows_empty_have_no_weight(film):
    """Without a film of the empty scene, the middle of what the ball covers in all frames is hidden."""
    trajectory, silhouettes = filmed()
    hidden = film.empty(silhouettes.union(trajectory.surface, trajectory.values)[0].numpy() > 0.5)[1]
    assert not hidden.any()
    other = replace(film, background=None)
    hidden = other.empty(silhouettes.union(trajectory.surface, trajectory.values)[0].numpy() > 0.5)[1]
    data = remeasured(first_masks(film, silhouettes), other, trajectory)
    assert hidden.any() and not data.weight[:, torch.tensor(hidden)].any()
    assert (data.weight[:, ~torch.tensor(hidden)] > 0).any()


def test_masks_of_a_camera_with_a_response_follow_it(film):
    trajectory, silhouettes = filmed(gamma=2.2)
    data = remeasured(first_masks(film, silhouettes), replace(film, gamma=2.2), trajectory)
    assert isinstance(data, LightMasks) and data.gamma == 2.2
    coarse = remeasured(first_masks(film, silhouettes).binned(2), replace(film, gamma=2.2), trajectory)
    assert isinstance(coarse, LightMasks) and coarse.masks.shape == (FRAMES, SIZE[1] // 2, SIZE[0] // 2)
