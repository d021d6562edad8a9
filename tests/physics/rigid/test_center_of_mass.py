"""An unknown center of mass shifts the shape about it: motion, gradients, outlines, joints, export and errors."""

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, SINGLE, SOLVED, assert_near

import gradsim as gs
from gradsim.errors import InputError
from gradsim.identification.synthetic import float_masks
from gradsim.physics.model import Model
from gradsim.scene import Scene
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.substitution import with_values
from gradsim.scene.parameters import parameters, resolve

CENTER = (0.02, -0.03, 0.05)
CAMERA = {"look_at": {"eye": [0.2, -3.0, 0.8], "target": [0.2, 0, 0.5], "fov": "30 deg"}, "size": [96, 72]}
BRICK = {"shape": {"box": {"size": [0.2, 0.3, 0.4]}}, "mass": 0.8, "centre_of_mass": [0, 0, 0], "collision": "vertices"}
DROP = {**BRICK, "position": [0, 0, 0.5], "velocity": [0.6, 0, 0], "angular_velocity": [1.0, 2.0, -1.0]}


def drop(**body) -> Scene:
    """A brick that tumbles onto a ground."""
    timing = {"fps": 60, "frames": 40, "substeps": 64}
    ground = {"stiffness": 5e3, "dissipation": 0.3, "friction": 0.4}
    return Scene.parse({"timing": timing, "bodies": {"brick": DROP | body}, "ground": ground, "camera": CAMERA})


def arm(center=(0, 0, 0), **joint) -> Scene:
    """A brick on a hinge at its upper end, which swings."""
    hinge = {
        "kind": "revolute",
        "between": ["world", "brick"],
        "axis": [0, 1, 0],
        "angle": 1.0,
        "parent_point": [0, 0, 1],
    }
    brick = {**BRICK, "centre_of_mass": list(center)}
    content = {"bodies": {"brick": brick}, "joints": {"hinge": hinge | joint}, "camera": CAMERA}
    return Scene.parse(content | {"timing": {"fps": 60, "frames": 30, "substeps": 8}})


ON_SHAPE = {"child_point": [0, 0, 0.2], "points_from": "shape"}


def vertices(scene: Scene, **values) -> torch.Tensor:
    with torch.no_grad():
        return Model(scene, dtype=torch.float64).rollout(values).surface.vertices[0]


@pytest.mark.parametrize("further", [{}, {"inertia_log_cholesky": [0.1, 0.2, -0.1, 0.05, 0.1, 0.0]}, {"scale": 1.2}])
def test_a_value_moves_as_a_scene_that_states_it(further):
    given = vertices(drop(**further), **{"brick.centre_of_mass": CENTER})
    assert_near(given, vertices(drop(**further, centre_of_mass=list(CENTER))), SOLVED)
    assert (given - vertices(drop(**further))).abs().max() > 0.05


def test_motion_and_outlines_are_differentiable_by_it():
    scene, x = drop(), torch.tensor([CENTER], dtype=torch.float64, requires_grad=True)
    model = Model(scene, dtype=torch.float64)
    weights = torch.tensor(np.random.default_rng(0).standard_normal((15, 8, 3)))
    shown = lambda y: model.rollout({"brick.centre_of_mass": y, "brick.scale": y[:, 0] + 1}, frames=15)
    value = lambda y: (shown(y).surface.vertices[0] * weights).sum()
    (gradient,) = torch.autograd.grad(value(x), x)
    h = 1e-6
    with torch.no_grad():
        ends = [(value(x + h * e) - value(x - h * e)) / (2 * h) for e in torch.eye(3).double()]
    assert_near(gradient[0], torch.stack(ends), SINGLE)


SWUNG = {"brick.centre_of_mass.x": 0.02, "brick.centre_of_mass.z": -0.04}


def fitted_arm(highest: float, seed: int = 0) -> gs.Fit:
    """Fit of a center of mass at most so far above the middle of the brick."""
    scene = arm(**ON_SHAPE)
    trajectory = Model(with_values(scene, SWUNG)).rollout()
    return gs.identify(
        scene,
        ["brick.centre_of_mass.x:-0.1:0.1", f"brick.centre_of_mass.z:-0.1:{highest}"],
        observation=float_masks(scene, trajectory),
        starts=4,
        seed=seed,
        known_numbers=False,
    )


def test_a_center_of_mass_is_found_by_outlines_from_elsewhere():
    fit = fitted_arm(highest=0.05)
    assert fit.status == "ok" and "other_minima" not in fit.evidence
    assert fit.values == pytest.approx(SWUNG, abs=1e-6)


def test_two_centers_of_mass_next_to_one_another_are_both_named():
    """As below, r = 1.1 √(r r'): the two are within a hundredth of the ranges. Starts at one must not count as come to the other."""
    r = 1.1 * (((0.2**2 + 0.4**2) / 12 + 0.2**2) / 2) ** 0.5
    x, z = r * np.array([0.02, -0.24]) / np.hypot(0.02, 0.24)
    scene = arm(**ON_SHAPE)
    names = "brick.centre_of_mass.x", "brick.centre_of_mass.z"
    film = float_masks(scene, Model(with_values(scene, dict(zip(names, (x, 0.2 + z), strict=True)))).rollout())
    fit = gs.identify(scene, [f"{n}:-2:2" for n in names], observation=film, starts=6, seed=0, known_numbers=False)
    assert fit.status == "unidentifiable" and len(fit.evidence["other_minima"]) == 1


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_two_centers_of_mass_that_swing_alike_are_both_named(seed):
    """Kater's pendulum: centers in line with the hinge, at distances r and r' from it, with one ratio of inertia about it and m r.

    About its middle the brick has k = (0.2² + 0.4²)/12 m² for each kg, so about the hinge, h = 0.2 m from the middle, k + c² + r² with the distance c of the
    center of mass from the middle. In line with the hinge that is k + h² + (a number) r + 2 r², so r r' = (k + h²)/2.
    """
    fit = fitted_arm(highest=0.1, seed=seed)
    assert fit.status == "unidentifiable"
    (other,) = fit.evidence["other_minima"]
    share = (
        ((0.2**2 + 0.4**2) / 12 + 0.2**2) / 2 / (0.02**2 + 0.24**2)
    )  # r'/r; the first is at (0.02, -0.24) from the hinge
    twin = {"brick.centre_of_mass.x": 0.02 * share, "brick.centre_of_mass.z": 0.2 - 0.24 * share}
    pairs = sorted((fit.values, other["values"]), key=lambda at: at["brick.centre_of_mass.z"])
    assert [pytest.approx(at, abs=1e-6) for at in (SWUNG, twin)] == pairs
    for name, e in fit.unknowns.items():
        assert not e.identifiable and e.interval95[0] < SWUNG[name] < e.interval95[1]
        assert e.interval95[0] < twin[name] < e.interval95[1]
    assert any("explained as well in 2 places" in note for note in fit.notes)


def test_a_joint_on_the_shape_stays_there():
    moved = vertices(arm(**ON_SHAPE), **{"brick.centre_of_mass": CENTER})
    stated = arm(CENTER, child_point=(np.array([0, 0, 0.2]) - CENTER).tolist())
    assert_near(moved, vertices(stated), SOLVED)
    assert_near(moved[0], vertices(arm(**ON_SHAPE))[0], ROUNDING)  # the shape is at the same place at the start
    assert (moved[-1] - vertices(arm(**ON_SHAPE))[-1]).abs().max() > 0.01


def test_it_leaves_for_other_engines():
    scene = with_values(
        arm(**ON_SHAPE), {f"brick.centre_of_mass.{axis}": x for axis, x in zip("xyz", CENTER, strict=True)}
    )
    twin, model = twin_of(scene), Model(scene, dtype=torch.float64)
    link = twin.links["brick"]
    assert_near(link.inertia, model.systems[0].inertia(model.values({}))[0].detach(), SOLVED)
    assert_near(twin.tree["brick"].child_point, np.array([0, 0, 0.2]) - CENTER, ROUNDING)
    with torch.no_grad():
        assert_near(link.x, model.rollout()["brick"]["x"][0, 0], SOLVED)


def test_bodies_without_one_or_that_touch_others_do_not_have_it():
    plain = {key: value for key, value in BRICK.items() if key != "centre_of_mass"}
    scene = Scene.parse({"bodies": {"brick": plain}})
    with pytest.raises(InputError, match=r"write `centre_of_mass: \[x, y, z\]`"):
        resolve(scene, "brick.centre_of_mass.x")
    two = {"a": BRICK, "b": {**BRICK, "position": [1, 0, 0]}}
    touching = Scene.parse({"bodies": two, "contacts": {"pair": {"between": ["a", "b"], "stiffness": 1e4}}})
    assert "a.centre_of_mass" not in parameters(touching)
    assert "brick.centre_of_mass" in parameters(drop())
