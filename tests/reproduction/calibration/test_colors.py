"""Colors of textured balls in videos of another renderer: points that pixels show, the profiled cost, the search and its verdicts."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from gradsim.errors import InputError
from gradsim.identification.colors.contrast import contrast
from gradsim.identification.colors.fit import require_pictures
from gradsim.identification.colors.interior import InteriorColors, interior_colors
from gradsim.identification.colors.outlines import open_to_colors
from gradsim.identification.colors.search import Levels, search_colors
from gradsim.identification.colors.surface_points import (
    PixelList,
    body_named,
    pose_of,
    surface_points,
    visible_faces,
)
from gradsim.identification.observation.base import Masks
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for
from gradsim.identification.unknowns import Space
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.render.camera import project
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene
from gradsim_reproduction.calibration import spin_videos
from gradsim_reproduction.calibration.spin_videos import FPS, RADIUS, SpinTruth, draw_spin

SIZE, FRAMES, SPIN = (64, 48), 8, (3.0, -7.0, 5.0)
TRUTH = SpinTruth(
    "patches",
    (0.0, 0.0, 1.0),
    (0.0, 0.0, 0.2),
    SPIN,
    FRAMES,
    310.0,
    (0.0, -2.0, 1.0),
    0.004,
    18,
    (0.5, -0.6, 0.6),
    0.02,
    5,
)


@cache
def frames(texture: str = "patches", noise: float = 0.004) -> np.ndarray:
    """8-bit frames (FRAMES, 48, 64, 3)."""
    old, spin_videos.SIZE = spin_videos.SIZE, SIZE
    try:
        return spin_videos.render(replace(TRUTH, texture=texture, noise=noise))
    finally:
        spin_videos.SIZE = old


def scene(ball: dict | None = None) -> Scene:
    """Scene of the videos, with the true motion."""
    body = {"kind": "rigid", "shape": {"sphere": {"radius": RADIUS}}, "mass": 0.4, "position": [0, 0, 1.0]}
    return Scene.parse(
        {
            "name": "spin",
            "timing": {"fps": FPS, "frames": FRAMES},
            "gravity": [0, 0, -9.81],
            "camera": {
                "size": list(SIZE),
                "look_at": {"eye": [0, -2, 1], "target": [0, 0, 1]},
                "focal": f"{TRUTH.focal} px",
            },
            "bodies": {"ball": body | {"velocity": [0, 0, 0.2], "angular_velocity": list(SPIN)} | (ball or {})},
        }
    )


def spin_problem(texture: str = "patches", noise: float = 0.004) -> tuple[Problem, Levels, torch.Tensor]:
    """Problem of the spin, its colors, and the true spin."""
    ball = scene()
    space = Space(ball, [f"ball.angular_velocity.{axis}:-20:20" for axis in "xyz"])
    model = model_for(ball, space)
    with torch.no_grad():
        trajectory = model.rollout({})
    images = frames(texture, noise) / 255
    used, silhouettes = np.ones(images.shape[:3], bool), Silhouettes.of(ball)

    def colors(factor: int, cell: float) -> InteriorColors:
        return interior_colors(images, used, trajectory, ["ball"], silhouettes, factor, cell)

    levels = Levels(colors(2, 1.0), colors(1, 1.25))
    masks = Masks(torch.zeros(FRAMES, SIZE[1], SIZE[0]), 1.0, silhouettes)
    problem = Problem(model, masks, space)
    return problem.with_observation(levels.fine), levels, torch.tensor(SPIN).double()


BOX = {"shape": {"box": {"size": [0.15, 0.12, 0.18]}}, "rotation_vector": [0.4, -0.3, 0.9]}


@pytest.mark.parametrize("shape", [{}, BOX], ids=["sphere", "box"])
def test_a_point_that_a_pixel_shows_is_projected_back_to_it(shape):
    ball = scene(shape)
    with torch.no_grad():
        trajectory = Model(ball).rollout({})
    silhouettes, body = Silhouettes.of(ball), body_named(trajectory, "ball")
    place = torch.tensor([[32.5, 24.5], [28.5, 20.5], [36.5, 27.5]]).double().repeat(2, 1)
    pixels, pose = PixelList(torch.tensor([0, 0, 0, 5, 5, 5]), place), pose_of(trajectory, "ball", silhouettes)
    faces = visible_faces(body, pose, trajectory.values, pixels, silhouettes)
    shown = surface_points(body, pose, pixels, silhouettes, faces)
    world = pose.x[pixels.frame] + rotation.rotate(pose.q[pixels.frame], pose.scale * shown.points)
    assert (project(world, pose.K, pose.R, pose.t)[0] - place).abs().max() < 1e-6
    assert (shown.slant > 0).all()
    if faces is None:
        assert (shown.points.norm(dim=1) - 0.11).abs().max() < 1e-12
    else:
        half = torch.tensor(BOX["shape"]["box"]["size"]).double() / 2
        assert ((shown.points.abs() - half).amax(1)).abs().max() < 1e-7  # corners of the model are in single precision


@pytest.mark.slow
def test_slope_of_the_profiled_cost_is_that_of_its_differences():
    problem, _, spin = spin_problem()
    u, step = spin + torch.tensor([0.3, -0.2, 0.25]), 1e-3
    problem = settled(problem, u)
    _, A, g = problem.linearize(u[None], 8)
    ends = problem.cost(torch.cat([u + step * torch.eye(3), u - step * torch.eye(3)]).double(), 8)
    slope = (ends[:3] - ends[3:]) / (2 * step)
    # by the envelope theorem: exact at the minimum over texture and exposure
    assert (slope - 2 * g[0]).abs().max() < 0.005 * slope.abs().max()
    assert torch.linalg.eigvalsh(A[0]).min() > 0


def test_slope_by_gamma_is_that_of_differences_of_the_profiled_cost():
    """As above, where light is shaded: of a texture and an exposure that follow everything, a power of light is a power of both."""
    ball = responding(1.9)
    space = Space(ball, ["ball.angular_velocity.y:-20:20", "camera.gamma:1.2:3"])
    problem = Problem(
        model_for(ball, space), Masks(torch.zeros(FRAMES, SIZE[1], SIZE[0]), 1.0, Silhouettes.of(ball)), space
    )
    with torch.no_grad():
        trajectory = problem.model.rollout({})
    used, silhouettes = np.ones(frames().shape[:3], bool), Silhouettes.of(ball)
    colors = interior_colors(frames() / 255, used, trajectory, ["ball"], silhouettes, 1, 2.0)
    u, h = space.inner(torch.tensor([SPIN[1] + 0.3, 1.9]).double()), 1e-2
    problem = settled(problem.with_observation(colors), u)
    slope = 2 * problem.linearize(u[None], FRAMES)[2][0, 1]
    ends = problem.cost(torch.stack([u + h * torch.eye(2).double()[1], u - h * torch.eye(2).double()[1]]), FRAMES)
    assert (slope - (ends[0] - ends[1]) / (2 * h)).abs() < 0.01 * slope.abs() and slope.abs() > 1


def settled(problem: Problem, u: torch.Tensor) -> Problem:
    """The problem with textures and exposures that start at the minimum for u (unknowns,)."""
    with torch.no_grad():
        trajectory = problem.model.rollout_unchecked(problem.model.values(problem.space.values(u[None])), FRAMES)
    return problem.with_observation(problem.observation.with_exposures(trajectory))


def test_chroma_that_lies_half_a_pixel_off_moves_the_spin_little_where_it_is_subsampled():
    """Newton steps from the true spin, less those with chroma in its place: of all channels alike, and of mostly luma."""
    problem, _, spin = spin_problem()
    luma = frames() @ np.array([0.299, 0.587, 0.114])
    chroma = frames() - luma[..., None]
    off = 0.5 * (chroma + np.roll(chroma, 1, 2))  # sited elsewhere
    used, silhouettes = np.ones(luma.shape, bool), Silhouettes.of(scene())
    with torch.no_grad():
        trajectory = problem.model.rollout({})

    def step(chroma: np.ndarray, subsampled: bool) -> torch.Tensor:
        images = (luma[..., None] + chroma) / 255
        colors = interior_colors(images, used, trajectory, ["ball"], silhouettes, 1, 3.0, subsampled=subsampled)
        one = settled(problem.with_observation(colors), spin)
        _, A, g = one.linearize(spin[None], FRAMES)
        return torch.linalg.solve(A[0], g[0])

    alike, mostly_luma = ((step(off, kind) - step(chroma, kind)).norm() for kind in (False, True))
    assert mostly_luma < 0.3 * alike


def responding(gamma: float) -> Scene:
    """The scene with a camera that has a response."""
    content = scene().model_dump(exclude_unset=True)
    content["camera"]["gamma"] = gamma
    return Scene.parse(content)


@pytest.mark.slow
def test_spin_is_found_from_colors_of_another_renderer_without_its_texture():
    problem, levels, spin = spin_problem()
    outcome = search_colors(problem, levels, torch.zeros(3).double(), np.random.default_rng(0))
    assert (outcome.best - spin).norm() < 0.02 * spin.norm()  # 0.12 s, in which it turns by 1.1 rad


@pytest.mark.slow
@pytest.mark.parametrize(("texture", "shows"), [("patches", True), ("plain", False)])
def test_a_plain_ball_shows_no_turn(texture, shows):
    problem, levels, spin = spin_problem(texture)
    found = contrast(problem, levels.coarse, spin, np.random.default_rng(0))
    assert found.shows_turn is shows and bool(found.words) is not shows


def test_spin_of_a_ball_in_flight_is_left_to_colors():
    flying = scene()
    unknowns = ["ball.position.x:-1:1", "ball.angular_velocity.y:-5:5", "gravity.z:-11:-8"]
    masks = Masks(torch.zeros(8, 48, 64), 1.0, Silhouettes.of(flying))
    assert open_to_colors(Problem(Model(flying), masks, Space(flying, unknowns))) == [1]
    ground = {**flying.model_dump(exclude_unset=True), "ground": {"stiffness": 1e4, "friction": 0.5}}
    rolling = Scene.parse(ground)
    assert open_to_colors(Problem(Model(rolling), masks, Space(rolling, unknowns))) == []


def test_bodies_of_a_few_pixels_are_refused():
    ball = scene()
    tiny = torch.zeros(8, 48, 64)
    tiny[:, 20:26, 30:36] = 1
    with pytest.raises(InputError, match="px across in the video, and colors need"):
        require_pictures(ball, Masks(tiny, 1.0, Silhouettes.of(ball)))


def test_videos_have_the_ball_where_the_pinhole_sees_it():
    truth = draw_spin(0, 0)
    assert spin_videos.SIZE == (480, 360) and len(truth.spin) == 3
    image = frames("plain", noise=0.0)[0].astype(float)
    red = image[..., 0] > 1.5 * image[..., 1]
    row, column = (x.mean() + 0.5 for x in np.nonzero(red))
    assert abs(column - 32) < 0.3 and abs(row - 24) < 0.3  # the camera looks at its center
