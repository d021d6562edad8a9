"""Balls and boxes in the way: distances, bounces, rests, and what a scene makes of them."""

import math

import pytest
import torch
from checks import error
from rigid_cases import body, simulate
from tolerances import SOLVED, near
from torch.nn.functional import normalize

from gradsim.errors import InputError
from gradsim.physics.contact.point_sdf import direction, distance
from gradsim.physics.model import Model
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

BALL = {"shape": {"sphere": {"radius": 0.1}}, "mass": 2.0}


def scene(timing=None, **content) -> Scene:
    return Scene.parse({"timing": {"fps": 50, "frames": 11, "substeps": 200, **(timing or {})}, **content})


def test_distance_to_a_box_is_that_of_the_nearest_point_of_its_surface():
    """Outside: to the nearest point of the box, which clamps each coordinate. Inside: to the nearest of six faces."""
    points = 2 * torch.randn(4000, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    half = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    nearest = points.clamp(-half, half)
    inside = (nearest == points).all(1)
    faces = torch.minimum(half - points, half + points).amin(1)
    expected = torch.where(inside, -faces, (points - nearest).norm(dim=1))
    assert inside.sum() > 100
    assert (distance(points, half.expand(4000, 3)) - expected).abs().max() < 1e-14


def test_direction_is_the_gradient_of_the_distance():
    points = 2 * torch.randn(4000, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    half = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64).expand(4000, 3)
    points.requires_grad_()
    (slope,) = torch.autograd.grad(distance(points, half).sum(), points)
    assert (direction(points, half) - slope).abs().max() < 1e-14
    assert (slope.norm(dim=1) - 1).abs().max() < 1e-14


def test_a_ball_bounces_off_a_ball_like_light_off_a_mirror():
    """No loss, no friction: v → v − 2 (v·n) n with n from centre to centre at touch, to O(travel in the contact)."""
    generator = torch.Generator().manual_seed(2)
    n = normalize(torch.randn(16, 3, generator=generator, dtype=torch.float64), dim=-1)
    aim = normalize(-n + 0.5 * normalize(torch.randn(16, 3, generator=generator).double(), dim=-1), dim=-1)
    centre = torch.randn(16, 1, 3, generator=generator, dtype=torch.float64)
    case = body(
        16, x=centre[:, 0] + 0.5 * n - 0.1 * aim, v=aim, points=[[0.0, 0, 0]], radius=0.2, stiffness=1e7,
        centre=centre, axis=torch.eye(3), rounding=[0.3],
    )  # fmt: skip
    states = simulate(case, 2, 2e-6, 100_000)
    assert error(states["v"][:, 1], aim - 2 * (aim * n).sum(1, keepdim=True) * n) < 3e-3  # (π/√k) m/s over 0.5 m


def test_a_ball_rests_on_a_box_at_the_depth_that_carries_its_weight():
    """k C = m g; so x sinks by m g/k, and ∂x/∂m = −g/k where it rests."""
    k = 2.5e5
    height = 0.5 + 0.1 - 2 * 9.81 / k
    resting = scene(
        bodies={"ball": {**BALL, "position": [0.1, 0, height]}},
        obstacles={"table": {"size": [1, 1, 0.2], "position": [0, 0, 0.4], "stiffness": k, "dissipation": 70}},
    )
    mass = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    x = Model(resting).rollout({"ball.mass": mass})["ball"]["x"][0]
    assert (x - torch.tensor([0.1, 0, height], dtype=torch.float64)).abs().max() < 1e-9
    settled = Model(resting).rollout({"ball.mass": mass * 1.1}, frames=41)["ball"]["x"][0, -1, 2]
    (slope,) = torch.autograd.grad(settled, mass)
    assert settled.item() == near(0.6 - 2.2 * 9.81 / k, SOLVED)
    assert slope.item() == pytest.approx(-1.1 * 9.81 / k, rel=1e-5)


def test_a_ball_rolls_down_a_tilted_plane():
    """A7: a = (5/7) g sin θ where friction holds; exact contact of the ball, on a ground with a tilted `normal`."""
    slope = math.radians(20)
    n = [math.sin(slope), 0, math.cos(slope)]
    depth = 2 * 9.81 * math.cos(slope) / 2.5e5
    rolling = scene(
        timing={"frames": 26, "integrator": "rk4"},
        bodies={"ball": {**BALL, "position": [(0.1 - depth) * c for c in n]}},
        ground={"normal": n, "stiffness": 2.5e5, "dissipation": 1, "friction_stiffness": 1e3, "friction": 0.6},
    )
    x = Model(rolling).rollout()["ball"]["x"][0].detach()
    down = x @ torch.tensor([math.cos(slope), 0, -math.sin(slope)], dtype=torch.float64)
    ball = Model(rolling).systems[0]
    inertia = ball.inertia_per_mass[0, 0].item() / 0.1**2  # of the faceted ball, near 2/5
    acceleration = 9.81 * math.sin(slope) / (1 + inertia)
    assert down[-1].item() == pytest.approx(0.5 * acceleration * 0.5**2, rel=1e-2)  # creep: m g/k_f = 7 mm/s at most


@pytest.mark.parametrize("obstacle", [{"radius": 0.3}, {"size": [0.6, 0.6, 0.6], "rotation_vector": [0, 0, 0.7]}])
def test_a_margin_is_a_larger_obstacle(obstacle):
    """Contact that begins d earlier is contact with a ball of radius R + d; over a face, with a box 2 d larger."""
    key, value = next(iter(obstacle.items()))
    larger = value + 0.05 if key == "radius" else [v + 0.1 for v in value]
    found = []
    for shape in ({**obstacle, "margin": 0.05}, {**obstacle, key: larger}):
        falling = scene(bodies={"ball": {**BALL, "position": [0.05, 0, 0.47]}}, obstacles={"post": shape})
        found.append(Model(falling).rollout()["ball"]["x"])
    assert torch.allclose(*found, rtol=0, atol=1e-12)
    assert (found[0][0, :, 2] > 0.44).all()


def test_an_obstacle_is_drawn_but_does_not_count_as_a_body():
    camera = {"size": [24, 24], "look_at": {"eye": [0, -3, 0.5], "target": [0, 0, 0.5], "fov": 0.6}}
    seen = scene(bodies={"ball": {**BALL, "position": [0, 0, 0.9]}}, camera=camera,
                 obstacles={"post": {"radius": 0.2, "position": [0, 0, 0.4], "colour": [1, 0, 0]}})  # fmt: skip
    trajectory = Model(seen).rollout(frames=2)
    assert [p.name for p in trajectory.surface.parts] == ["ball"]
    assert [p.name for p in trajectory.scene_surface.parts] == ["ball", "post"]
    image = Silhouettes.of(seen)(trajectory.scene_surface)[0, 0]
    assert image[:, 14, 12].tolist() == pytest.approx([1, 0, 0])


@pytest.mark.parametrize(
    "obstacle, name",
    [({"radius": 0.3, "position": [0, 0, 0.4]}, "post"), ({"size": [2, 2, 0.5], "position": [0, 0, 0.4]}, "post")],
)
def test_a_body_that_starts_inside_an_obstacle_is_refused_with_its_depth(obstacle, name):
    inside = scene(bodies={"ball": {**BALL, "position": [0, 0, 0.7]}}, obstacles={name: obstacle})
    depth = 0.1 if "radius" in obstacle else 0.05
    with pytest.raises(InputError, match=rf"`ball` starts {depth:g} m inside `post`; move one of them"):
        Model(inside)


def test_a_body_has_its_own_friction():
    """A7: the ball slides until t = 2 v₀/(7 μ g), with the μ of the ball and not of the ground."""
    floor = {"friction": 0.9, "friction_stiffness": 1e3, "stiffness": 2.5e5}
    start = {"position": [0, 0, 0.1 - 2 * 9.81 / 2.5e5], "velocity": [2, 0, 0]}
    both = scene(
        bodies={"slick": {**BALL, **start, "friction": 0.1}, "plain": {**BALL, **start}},
        ground=floor,
        timing={"frames": 3},
    )
    speeds = Model(both).rollout()
    after = 2 / 50  # both slide still
    assert speeds["slick"]["v"][0, -1, 0].item() == pytest.approx(2 - 0.1 * 9.81 * after, rel=1e-3)
    assert speeds["plain"]["v"][0, -1, 0].item() == pytest.approx(2 - 0.9 * 9.81 * after, rel=1e-2)


def test_bodies_pass_through_one_another():
    alone = scene(bodies={"a": {**BALL, "position": [0, 0, 1]}})
    both = scene(bodies={"a": {**BALL, "position": [0, 0, 1]}, "b": {**BALL, "position": [0, 0.05, 1]}})
    assert torch.equal(Model(alone).rollout()["a"]["x"], Model(both).rollout()["a"]["x"])
