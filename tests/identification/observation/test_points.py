"""Tracks of markers: derivatives, what is refused, and fits of motion in closed form, seen by a pinhole that is not ours."""

import math

import numpy as np
import pytest
import torch
from tracks_cases import FOCAL, FPS, FRAMES, SIZE, TRUTH, UNKNOWNS, scene, seen_from, table, thrown

import gradsim as gs
from gradsim.errors import InputError
from gradsim.identification.observation.base import Sensitivity
from gradsim.identification.observation.observability import require_observable
from gradsim.physics.model import Model


def test_positions_are_those_of_the_closed_form():
    """rk4 steps of free fall and of a constant spin: positions to 1e-9 m, pixels to 1e-6."""
    trajectory = Model(scene()).rollout()
    world = gs.Points(scene().markers, torch.tensor(thrown()), 1.0).predict(trajectory)[0].detach().numpy()
    pixels = torch.tensor(seen_from(thrown()))
    image = gs.Points(scene().markers, pixels, 1.0, gs.Silhouettes.of(scene())).predict(trajectory)[0].detach().numpy()
    assert np.abs(world - thrown()).max() < 1e-9 and np.abs(image - pixels.numpy()).max() < 1e-6


def test_markers_grow_with_their_body():
    model = Model(scene())
    observation = gs.Points(scene().markers, torch.zeros(FRAMES, 4, 3), 1.0)
    both = observation.predict(model.rollout({"cube.scale": torch.tensor([1.0, 2.0]).double()})).detach()
    center = model.rollout()["cube"]["x"].detach()[0, 0]
    assert (both[1, 0] - center - 2 * (both[0, 0] - center)).abs().max() < 1e-12


@pytest.mark.parametrize("in_image", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "cube.velocity.x",
        "cube.angular_velocity.y",
        "cube.scale",
        "markers.a.point.y",
        "camera.focal",
        "camera.translation.z",
    ],
)
def test_derivatives_are_those_of_differences(name, in_image):
    """Central differences of 1e-5 are exact to about 1e-9 of the largest derivative."""
    model = Model(scene())
    if in_image:
        observation = gs.Points(scene().markers, torch.zeros(FRAMES, 4, 2), 0.7, gs.Silhouettes.of(scene()))
    else:
        observation = gs.Points(scene().markers, torch.zeros(FRAMES, 4, 3), 0.7)
    key, _, axis = name.rpartition(".") if name[-2:] in (".x", ".y", ".z") else (name, "", "")
    base = model.values()[key]
    direction = torch.zeros_like(base)
    direction[..., "xyz".index(axis) if axis else slice(None)] = 1.0
    with torch.no_grad():
        trajectory, tangent = model.tangent(model.values(), {key: direction}, FRAMES)
        s = Sensitivity(trajectory, tangent, {key: direction}, 1)
        r, J = next(observation.linearize(s, FRAMES, "pixels"))
        moved = lambda step: next(
            observation.residuals(model.rollout({key: base + step * direction}), FRAMES, "pixels")
        )
        expected = (moved(1e-5) - moved(-1e-5)) / 2e-5
    assert (J[..., 0] - expected).abs().max() <= 1e-6 * max(1.0, expected.abs().max().item())
    assert torch.equal(r, next(observation.residuals(trajectory, FRAMES, "pixels")))
    if not in_image and name.startswith("camera"):
        assert expected.abs().max() == 0
    else:
        assert expected.abs().max() > 0


def test_derivatives_need_no_transform_of_torch_func(monkeypatch):
    """It composes rules of products with constants in Python, after an import of seconds; a camera without a shutter needs none."""

    def jvp(*arguments):
        raise AssertionError("a transform")

    monkeypatch.setattr(torch.func, "jvp", jvp)
    model = Model(scene())
    observation = gs.Points(scene().markers, torch.zeros(FRAMES, 4, 2), 0.7, gs.Silhouettes.of(scene()))
    with torch.no_grad():
        direction = {"cube.velocity": torch.ones(1, 3).double()}
        s = Sensitivity(*model.tangent(model.values(), direction, FRAMES), direction, 1)
        slope = next(observation.linearize(s, FRAMES, "pixels"))[1]
        vertices = s.trajectory.surface_tangent(s.tangent, direction)[1]
    assert slope.abs().max() > 0 and vertices.abs().max() > 0


@pytest.mark.slow
def test_intervals_of_tracks_with_gaps_hold_the_truth(tmp_path):
    """Four unknowns of six draws of noise: of 24 errors the mean square in standard deviations is 1 ± 0.29."""
    scores = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        pixels = seen_from(thrown()) + 0.4 * rng.standard_normal((FRAMES, 4, 2))
        pixels[rng.random((FRAMES, 4)) < 0.2] = np.nan
        observation = gs.read_tracks(scene(), table(tmp_path / f"{seed}.csv", pixels))
        fit = gs.identify(scene(), list(UNKNOWNS), observation=observation, starts=4)
        assert fit.status == "ok"
        scores += [(fit.unknowns[name].value - truth) / fit.unknowns[name].std for name, truth in TRUTH.items()]
    assert 0.3 < np.mean(np.square(scores)) < 2.0 and max(map(abs, scores)) < 4


def test_the_place_of_a_marker_may_be_unknown(tmp_path):
    pixels = seen_from(thrown()) + 0.4 * np.random.default_rng(1).standard_normal((FRAMES, 4, 2))
    observation = gs.read_tracks(scene(), table(tmp_path / "tracks.csv", pixels))
    fit = gs.identify(scene(), ["markers.d.point.x:-0.06:0.06"], observation=observation, starts=4)
    place = fit.unknowns["markers.d.point.x"]
    assert fit.status == "ok" and abs(place.value - 0.02) < 4 * place.std < 0.002


def test_tracks_in_the_world_need_no_camera(tmp_path):
    positions = thrown() + 1e-3 * np.random.default_rng(2).standard_normal((FRAMES, 4, 3))
    path = table(tmp_path / "tracks.csv", positions, "frame,name,x,y,z,sd", "0.001")
    observation = gs.read_tracks(scene(camera=None), path)
    fit = gs.identify(scene(camera=None), list(UNKNOWNS), observation=observation, starts=4)
    assert fit.status == "ok"
    assert all(abs(fit.unknowns[name].value - truth) < 4 * fit.unknowns[name].std for name, truth in TRUTH.items())


@pytest.mark.slow
def test_a_track_that_jumps_is_an_outlier_of_a_robust_loss(tmp_path):
    pixels = seen_from(thrown()) + 0.4 * np.random.default_rng(3).standard_normal((FRAMES, 4, 2))
    pixels[12:15, 2] += 60.0
    path = table(tmp_path / "tracks.csv", pixels)
    fits = [
        gs.identify(scene(), list(UNKNOWNS), observation=gs.read_tracks(scene(), path, loss=loss), starts=4)
        for loss in ("gaussian", "cauchy")
    ]
    off = [abs(fit.unknowns["gravity.z"].value + 9.81) for fit in fits]
    assert fits[0].status == "mismatch" and off[1] < 0.1 * off[0] and off[1] < 0.1


def test_vertices_of_cloth_and_bobs_of_pendulums_have_markers():
    bodies = {
        "sheet": {
            "kind": "cloth",
            "shape": {"grid": {"size": [0.2, 0.2], "cells": [2, 2]}},
            "density": 0.2,
            "mu": 100,
            "lam": 100,
        },
        "bob": {
            "kind": "pendulum",
            "pivot": [0, 0, 2],
            "string_length": 0.5,
            "radius": 0.1,
            "angle": 0.3,
            "rod_radius": 0,
        },
    }
    both = scene({"p": {"body": "sheet", "vertex": 4}, "q": {"body": "bob"}}, bodies=bodies)
    trajectory = Model(both).rollout(frames=5)
    p, q = gs.Points(both.markers, torch.zeros(5, 2, 3), 1.0).predict(trajectory)[0].detach().unbind(1)
    assert torch.equal(p, trajectory["sheet"]["x"][0, :, 4].detach())
    angle, reach = trajectory["bob"]["angle"][0].detach(), 0.5 + 0.1
    expected = torch.stack([reach * angle.sin(), 0 * angle, 2 - reach * angle.cos()], 1)
    assert (q - expected).abs().max() < 1e-9


def test_a_point_behind_the_camera_has_finite_residuals_and_no_derivatives():
    behind = scene(
        camera={"size": list(SIZE), "focal": FOCAL, "look_at": {"eye": [-0.4, 0.3, 1.0], "target": [-0.4, 3, 1.0]}}
    )
    model = Model(behind)
    observation = gs.Points(behind.markers, torch.zeros(FRAMES, 4, 2), 1.0, gs.Silhouettes.of(behind))
    with torch.no_grad():
        direction = {"cube.velocity": torch.tensor([[1.0, 0, 0]]).double()}
        trajectory, tangent = model.tangent(model.values(), direction, FRAMES)
        r, J = next(observation.linearize(Sensitivity(trajectory, tangent, direction, 1), FRAMES, "pixels"))
    assert r.isfinite().all() and (J == 0).all()  # all of the flight is behind it, and drawn in the middle of the image
    assert torch.equal(r.reshape(FRAMES, 4, 2)[0, 0], torch.tensor(SIZE).double() / 2)


def test_a_marker_without_a_track_is_no_unknown():
    three = {name: scene().markers[name] for name in "abc"}
    observation = gs.Points(three, torch.zeros(FRAMES, 3, 3), 1.0)
    for name, words in (("markers.d.point", "no track of that marker"), ("camera.focal", "no picture of that camera")):
        with pytest.raises(InputError, match=f"`{name}` cannot be found.*{words}"):
            require_observable(Model(scene()), observation, [name])
    require_observable(Model(scene()), observation, ["markers.a.point", "cube.velocity"])


MISTAKES = {
    "no such marker": (("frame,name,u,v,sd", "0,e,1,1,1"), "line 2: the scene has no marker `e`"),
    "twice": (("frame,name,u,v,sd", "0,a,1,1,1", "0,a,2,2,1"), "line 3: `a` is in frame 0 twice"),
    "one frame": (
        ("frame,name,u,v,sd", "0,a,1,1,1", "1,a,1,1,1", "1,b,1,1,1"),
        "has `b` in one frame only.*remove its rows",
    ),
    "nothing tracked": (("frame,name,u,v,sd", "0,a,,,1"), "no marker in two frames"),
    "no noise": (("frame,name,u,v", "0,a,1,1"), "noise of the tracks .* is not stated"),
    "noise of 0": (("frame,name,u,v,sd", "0,a,1,1,0"), "sd is 0; expected a number above 0"),
    "no v": (("frame,name,u,sd", "0,a,1,1"), "expected name, frame"),
    "a column too many": (("frame,name,u,v,sd,w", "0,a,1,1,1,1"), "has the columns"),
    "a cell too few": (("frame,name,u,v,sd", "0,a,1,1"), "line 2: expected 5 cells"),
    "words": (("frame,name,u,v,sd", "0,a,left,1,1"), "line 2: u is 'left'; expected a number"),
    "half a frame": (("frame,name,u,v,sd", "0.5,a,1,1,1"), "expected a whole number of at least 0"),
    "between frames": (("time,name,u,v,sd", "0.02,a,1,1,1"), "expected a multiple of 1/60 s"),
    "no rows": (("frame,name,u,v,sd",), "has no rows"),
}


@pytest.mark.parametrize("lines, words", MISTAKES.values(), ids=MISTAKES)
def test_a_file_with_a_mistake_is_refused_with_its_line(tmp_path, lines, words):
    path = tmp_path / "tracks.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match=words):
        gs.read_tracks(scene(), path)


def test_times_are_frames_by_the_clock(tmp_path):
    rows = [f"{k / FPS:.6f},a,{k},1,1" for k in range(5)]
    path = tmp_path / "tracks.csv"
    path.write_text("\n".join(["time,name,u,v,sd", *rows]))
    assert gs.read_tracks(scene(), path).positions[:, 0, 0].tolist() == [0, 1, 2, 3, 4]


def test_a_missing_file_and_a_scene_without_markers_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot read tracks"):
        gs.read_tracks(scene(), tmp_path / "none.csv")
    bare = scene().model_copy(update={"markers": {}})
    with pytest.raises(InputError, match="the scene has no `markers`"):
        gs.read_tracks(bare, table(tmp_path / "tracks.csv", seen_from(thrown())))


@pytest.mark.parametrize(
    "positions, sigma, words",
    [
        (torch.zeros(5, 4, 2), 1.0, "positions in the world have shape"),
        (torch.full((5, 4, 3), math.nan), 1.0, "no position of any marker"),
        (torch.zeros(5, 4, 3), 0.0, "sigma is 0"),
    ],
)
def test_wrong_tensors_are_refused(positions, sigma, words):
    with pytest.raises(InputError, match=words):
        gs.Points(scene().markers, positions, sigma)


@pytest.mark.parametrize(
    "marker, words",
    [
        ({"body": "cub"}, "the scene has no body `cub`; did you mean"),
        ({"body": "cube", "point": [0, 0, 0], "vertex": 1}, "give one of them"),
        ({"body": "sheet"}, "is not rigid; give the index of a vertex"),
        ({"body": "sheet", "point": [0, 0, 0]}, "is for rigid bodies"),
    ],
)
def test_a_marker_that_cannot_be_is_refused(marker, words):
    sheet = {
        "kind": "cloth",
        "shape": {"grid": {"size": [0.2, 0.2], "cells": [2, 2]}},
        "density": 0.2,
        "mu": 100,
        "lam": 100,
    }
    cube = {"shape": {"box": {"size": [0.1, 0.1, 0.1]}}, "mass": 1.0}
    with pytest.raises(InputError, match=words):
        scene({"m": marker}, bodies={"cube": cube, "sheet": sheet})


def test_a_vertex_that_is_not_there_is_refused():
    far = scene({"m": {"body": "cube", "vertex": 8}})
    with pytest.raises(InputError, match="vertex 8 of `cube`, whose surface has 8, counted from 0"):
        gs.Points(far.markers, torch.zeros(3, 1, 3), 1.0).predict(Model(far).rollout(frames=3))


@pytest.mark.parametrize(
    "optics", [{"distortion": [-0.2, 0.05, 1e-3, 0, 0]}, {"readout": 0.02}, {"fisheye": [0.1, 0, 0, 0]}]
)
def test_tracks_through_a_lens_or_shutter_have_the_derivatives_of_differences(optics):
    from gradsim.identification.observation.points import Points
    from gradsim.identification.problem import Problem
    from gradsim.identification.unknowns import Space
    from gradsim.render.silhouettes import Silhouettes

    content = gs.Scene.library("cube").model_dump(exclude_unset=True)
    content["camera"] = {**content["camera"], **optics}
    content["timing"] = {"fps": 30, "frames": 4}
    content["markers"] = {"corner": {"body": "cube", "point": [0.1, 0.05, 0.02]}}
    scene = gs.Scene.parse(content)
    key = next(iter(optics))
    names = ["cube.velocity.x:-3:5", "cube.velocity.z:-3:5", "camera.focal:20:200"]
    names += [f"camera.{key}:-0.1:0.1" if key == "readout" else f"camera.{key}.k1:-1:1"]
    view, model, space = Silhouettes.of(scene), Model(scene), Space(scene, names)
    points = Points(scene.markers, torch.full((4, 1, 2), 30.0), 1.0, view)
    least = Problem(model, points, space)
    u = space.inner(torch.tensor([[1.2, -0.8, 70.0, 0.015 if key == "readout" else -0.1]], dtype=torch.float64))
    ((_, J),) = least.jacobian(u, 4)
    h = 1e-5
    for k in range(len(space)):
        step = h * torch.eye(len(space), dtype=torch.float64)[k]
        differences = (least.residuals(u + step) - least.residuals(u - step)) / (2 * h)
        assert (J[0, :, k] - differences[0]).abs().max() < 1e-6 * J[0, :, k].abs().max()
