"""Priors: how they are stated, what they weigh, and a fit with them against the normal distribution in closed form."""

import json
import math

import numpy as np
import pytest
import torch
from fit_cases import SWING, THROW, THROW_TRUTH, recorded, swing, throw

import gradsim as gs
from gradsim.errors import InputError, Status
from gradsim.identification import synthetic
from gradsim.identification.multi_clip import SharedSpace
from gradsim.identification.observation.vertices import Vertices
from gradsim.identification.priors import Prior, priors_of, read_priors
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.prior_shares import variance_shares
from gradsim.identification.unknowns import Space, Unknown
from gradsim.scene import Scene

LOST = "cube.velocity.x:-1:3"
SPREAD = {"names": ["camera.focal", "camera.centre.x", "camera.k1"], "mean": [33.0, 12.0, 0.01], "sd": [0.3, 0.1, 0.02]}
CORRELATED = [[0.09, 0.015, 0], [0.015, 0.01, 0], [0, 0, 0.0004]]


def capture(path, **changes):
    content = {"schema": "gradsim.capture/1", **SPREAD, "covariance": CORRELATED, **changes}
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
    return path


@pytest.mark.parametrize("text", ["a.b=1000±50", "a.b = 1e3 +- 50", "a.b=1000+/-5%", "a.b=1000 ± 5 %"])
def test_a_prior_is_stated_as_a_mean_and_a_standard_deviation(text):
    prior = Prior.parse(text)
    assert (prior.names, prior.mean, prior.sd) == (("a.b",), (1000.0,), (50.0,))


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        ("cube.mass=3", "not NAME=MEAN±SD"),
        ("cube.mass=3±0", "above 0"),
        ("cube.mass=3±-1", "not NAME=MEAN±SD|above 0"),
        ("cube.mass=-3±1", "quantity is positive"),
        ("cube.mass=3±4", "needs a range"),
        ("cube.mess=3±1", "no parameter `cube.mess`"),
        ("cube.velocity=3±1", "name a component"),
        (["cube.mass=3±1", "cube.mass=2±1"], "two priors"),
        ({"camera.focal": (33.0, math.nan)}, "not finite"),
    ],
)
def test_a_prior_that_means_nothing_is_refused(stated, words):
    with pytest.raises(InputError, match=words):
        Space(throw(), [LOST], priors=priors_of([throw()], stated)[0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema": "x/1"}, "has the schema 'x/1'"),
        ({"mean": [1.0]}, "as long as each other"),
        ({"covariance": None, "sd": [0.1]}, "3 numbers"),
        ({"sd": [3.0, 0.1, 0.02]}, "square root of the diagonal"),
        ({"covariance": [[0.09, 0.03, 0], [0.03, 0.01, 0], [0, 0, 0.0004]]}, "positive definite"),
        ({"mean": [33.0, 12.0, "x"]}, "not a number"),
    ],
)
def test_a_file_of_priors_that_contradicts_itself_is_refused(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        Prior.load(capture(tmp_path / "capture.json", **changes))


def test_a_file_leaves_out_what_the_camera_of_the_scene_lacks(tmp_path):
    priors, words = priors_of([throw()], capture(tmp_path / "capture.json"))
    assert [prior.names for prior in priors] == [("camera.focal", "camera.centre.x")]
    assert "`camera.k1`" in words[0]
    with pytest.raises(InputError, match="it has|did you mean"):
        priors_of([throw()], capture(tmp_path / "other.json", names=["camera.focal", "camera.centre.x", "ball.mass"]))


def test_a_scene_states_priors_and_keeps_them_in_its_file(tmp_path):
    path = capture(tmp_path / "capture.json")
    content = throw().model_dump(by_alias=True, exclude_none=True)
    content["priors"] = {"cube.mass": "3 ± 2 %"}
    content["camera"]["prior"] = str(path)
    scene = Scene.parse(content)
    scene.save(tmp_path / "scene.yaml")
    again = Scene.load(tmp_path / "scene.yaml")
    assert again == scene and again.priors == {"cube.mass": (3.0, 0.06)} and again.camera.prior == path.resolve()
    priors, _ = priors_of([again], "camera.focal=30±1")
    assert [(prior.names, prior.sd) for prior in priors] == [
        (("cube.mass",), (0.06,)),
        (("camera.centre.x",), (0.1,)),
        (("camera.focal",), (1.0,)),
    ]
    with pytest.raises(InputError, match="MEAN ± SD"):
        Scene.parse({**content, "priors": {"cube.mass": "3"}})


def test_a_covariance_weighs_relative_errors_of_positive_quantities_and_others_as_they_are(tmp_path):
    """(θ − m)ᵀ C⁻¹ (θ − m) to the first order of the logarithm of the focal length, 33 px."""
    prior = Prior(("camera.focal", "cube.velocity.x"), (33.0, 0.9), ((0.09, 0.02), (0.02, 0.01)))
    space = Space(throw(), [LOST], priors=[prior])
    problem = recorded(throw(), THROW, THROW_TRUTH)
    weighed = Problem(problem.model, problem.observation, space)
    assert space.names == ["cube.velocity.x", "camera.focal"]
    off = np.array([1e-5, -2e-5])  # of focal length and velocity
    u = torch.tensor([[0.9 + off[1], math.log(33.0 + off[0])]]).double()
    expected = off @ np.linalg.inv(np.array(prior.covariance)) @ off
    assert weighed.prior_cost(u).item() == pytest.approx(expected, rel=1e-4)
    slope = torch.func.grad(lambda u: weighed.prior_cost(u)[0] / 2)(u)
    assert torch.allclose(weighed.prior_gradient(u), slope, rtol=1e-9)


def test_what_only_a_prior_makes_unknown_starts_at_its_mean_and_draws_no_random_number():
    plain = Space(throw(), [LOST])
    space = Space(throw(), [LOST], priors=read_priors({"cube.mass": (3.0, 0.1)})[0])
    starts = space.draw(np.random.default_rng(0), 4)
    assert torch.allclose(starts[:, 1].exp(), torch.tensor(3.0).double())
    low, high = space.range(1)
    assert math.log(high / 3) == pytest.approx(math.log(3 / low)) and high > 3.4
    assert plain.draw(np.random.default_rng(0), 3).equal(
        Space(throw(), [LOST], priors=[]).draw(np.random.default_rng(0), 3)
    )


def test_a_fit_without_priors_has_the_prior_nowhere():
    problem = recorded(throw(), THROW, THROW_TRUTH)
    assert not problem.prior_precision.any() and problem.prior_cost(torch.ones(2, 2).double()).tolist() == [0, 0]
    fit = gs.identify(throw(), THROW, observation=problem.observation, starts=1, known_numbers=False)
    assert fit.priors == {} and "priors" not in fit.result() and "known_numbers" not in fit.result()


def test_a_number_that_the_video_does_not_show_keeps_its_prior_and_says_so():
    """A box in free flight tells nothing about its mass."""
    scene = throw(pushes=[])
    problem = recorded(scene, THROW, THROW_TRUTH)
    fit = gs.identify(scene, [LOST], observation=problem.observation, starts=1, priors="cube.mass=3±2%")
    e = fit.unknowns["cube.mass"]
    assert (e.value, e.std) == (pytest.approx(3.0, rel=1e-6), pytest.approx(0.06, rel=1e-3))
    assert fit.status == Status.OK
    (row,) = fit.priors["numbers"]
    assert row["ratio"] == pytest.approx(1, rel=1e-3) and row["pull"] == pytest.approx(0, abs=1e-3)
    assert any("adds nothing to cube.mass" in note for note in fit.notes)
    assert fit.priors["shares"]["cube.mass"]["cube.mass"] == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(("sd", "status"), [(0.02, Status.MISMATCH), (0.03, Status.OK)])
def test_a_value_four_deviations_from_its_prior_is_a_conflict(sd, status):
    """The mass is 3.1 kg, and the pixels know it to 0.4 g; a prior of 3.0 kg is then 5 and 3.4 deviations away."""
    problem = recorded(throw(), THROW, THROW_TRUTH)
    prior = {"cube.mass": (3.0, sd)}
    fit = gs.identify(throw(), [LOST], observation=problem.observation, starts=1, priors=prior)
    assert fit.status == status and fit.priors["conflict"] == (status == Status.MISMATCH)
    assert any("contradicts the prior of cube.mass" in note for note in fit.notes) == fit.priors["conflict"]


def test_shares_of_the_variance_sum_to_one_and_are_those_of_a_product_of_normals():
    """Information 4 of the video and 12 of the prior: the video's share is 4/16 of the variance 1/16."""
    space = Space(throw(), [Unknown("cube.velocity.x", -1, 3, (0.9, 12**-0.5))])
    shares = variance_shares(space, torch.tensor([[4.0]]).double())
    assert shares == {"cube.velocity.x": {"video": pytest.approx(0.25), "cube.velocity.x": pytest.approx(0.75)}}
    wider = Space(swing(), SWING, priors=read_priors({"gravity.z": (-9.81, 0.05), "bob.radius": (0.12, 0.01)})[0])
    A = torch.tensor(np.random.default_rng(0).standard_normal((4, 4)))
    for parts in variance_shares(wider, A @ A.T).values():
        assert sum(parts.values()) == pytest.approx(1, rel=1e-12) and len(parts) == 3


def test_a_prior_of_several_clips_counts_once_and_of_each_clip_for_itself():
    scenes = [throw(), throw(velocity=[1, 0, 0])]
    priors, _ = priors_of(
        scenes, {"cube.mass": (3.0, 0.1), "camera.focal": (33.0, 0.3), "cube.velocity.x@each": (0.0, 1.0)}
    )
    space = SharedSpace(scenes, ["cube.mass:1:8", "cube.position.y:-1:1"], priors)
    assert space.names == ["cube.mass", "cube.position.y", "camera.focal", "cube.velocity.x@1", "cube.velocity.x@2"]
    diagonal = [(0.1 / 3.0) ** -2, 0, (0.3 / 33.0) ** -2, 1, 1]
    assert torch.allclose(space.prior_precision, torch.diag(torch.tensor(diagonal).double()))
    assert all(not one.prior_precision.any() for one in space.by_clip)


def test_a_tie_has_the_prior_of_one_of_its_names():
    scene = throw()
    space = Space(
        scene, ["cube.position.x=cube.position.y:-1:1"], priors=read_priors({"cube.position.y": (0.0, 0.1)})[0]
    )
    assert space.names == ["cube.position.x=cube.position.y"]
    assert space.prior_precision.item() == pytest.approx(100)


def test_a_beam_of_a_density_known_to_five_per_cent_has_a_stiffness_known_to_five_per_cent():
    """It falls under its own weight: only density over stiffness shows. Exact positions from the same steps, noise stated as 0.1 mm."""
    beam = {
        "kind": "solid",
        "shape": {"box": {"size": [0.4, 0.08, 0.08], "cells": [3, 1, 1]}},
        "density": 1070.0,
        "young": 2e5,
        "poisson": 0.4,
        "damping": 0.0,
        "pinned": ["-x"],
    }
    timing = {"fps": 30, "frames": 6, "substeps": 60, "tolerance": math.inf}
    content = {"gravity": 9.81, "timing": timing, "bodies": {"beam": beam}}
    unknowns = ["beam.young:5e4:8e5"]
    _, trajectory = synthetic.simulate(Scene.parse(content), unknowns, {"beam.young": 2e5})
    data = Vertices("beam", trajectory["beam"]["x"][0], 1e-4)
    wrong = Scene.parse({**content, "bodies": {"beam": {**beam, "density": 1070 * 1.05}}})
    sure = gs.identify(wrong, unknowns, observation=data, starts=1)
    e = sure.unknowns["beam.young"]
    assert sure.status == Status.OK and e.value == pytest.approx(2.1e5, rel=1e-5) and (e.value - 2e5) / e.std > 50
    (row,) = [row for row in sure.known_numbers["numbers"] if row["name"] == "beam.density"]
    assert row["effects"]["beam.young"]["percent"] == pytest.approx(1, rel=1e-4)
    assert "beam.density moves beam.young" in sure.known_numbers["words"]
    fit = gs.identify(
        wrong, unknowns, observation=data, starts=1, priors={"beam.density": (1070 * 1.05, 1070 * 0.0525)}
    )
    e = fit.unknowns["beam.young"]
    assert e.std / e.value == pytest.approx(0.05, rel=1e-3) and e.interval95[0] < 2e5 < e.interval95[1]
    assert fit.priors["shares"]["beam.young"]["beam.density"] > 0.999


@pytest.mark.slow
def test_a_comparison_weighs_a_prior_in_every_model_that_does_not_set_the_number():
    data = recorded(throw(), THROW, THROW_TRUTH).observation
    models = {"heavy": {"cube.mass": 5.0}}
    plan = gs.MultistartConfig(starts=1)
    priors = {"cube.mass": (3.1, 0.1)}
    comparison = gs.compare(throw(), [LOST], observation=data, candidates=models, plan=plan, priors=priors)
    named = {name: set(c.fit.unknowns) for name, c in comparison.candidates.items()}
    assert named["as given"] == {"cube.velocity.x", "cube.mass"}
    assert named["heavy"] == {"cube.velocity.x"} and comparison.candidates["heavy"].fit.priors == {}
    assert comparison.chosen == "as given" and comparison.best.fit.known_numbers["numbers"]


def test_the_rotation_of_a_file_is_about_the_camera_of_the_scene(tmp_path):
    """exp(ω') R_scene = exp(ω) R: samples of ω, turned into ω', have the stated mean and covariance."""
    from scipy.spatial.transform import Rotation

    scene, rng = throw(), np.random.default_rng(0)
    R = Rotation.from_rotvec([0.2, -0.3, 0.1]).as_matrix() @ scene.view().matrices()[1]
    names = [f"camera.rotation_vector.{axis}" for axis in "xyz"]
    C = 1e-4**2 * np.array([[4.0, 1, 0], [1, 2, 0.5], [0, 0.5, 1]])
    file = {"names": names, "mean": [0.0] * 3, "sd": None, "covariance": C.tolist(), "R": R.tolist()}
    (prior,), _ = priors_of([scene], capture(tmp_path / "capture.json", **file))
    samples = Rotation.from_rotvec(rng.multivariate_normal(np.zeros(3), C, 20_000))
    turned = (samples * Rotation.from_matrix(R @ scene.view().matrices()[1].T)).as_rotvec()
    assert turned.mean(0) == pytest.approx(prior.mean, abs=1e-5)
    assert np.cov(turned.T) == pytest.approx(np.array(prior.covariance), abs=0.06e-8)  # 3 % of the largest
    aligned = {**file, "R": scene.view().matrices()[1].tolist()}
    (unchanged,), _ = priors_of([scene], capture(tmp_path / "same.json", **aligned))
    assert unchanged.mean == (0, 0, 0) and np.array(unchanged.covariance) == pytest.approx(C)


def test_numbers_that_only_priors_know_are_in_one_sentence():
    """A calibration of a camera has fifteen."""
    from gradsim.identification.uncertainty.prior_shares import _of_priors_alone

    assert _of_priors_alone([]) == []
    assert _of_priors_alone([("a", 0.991)]) == [
        "The video adds nothing to a: its standard deviation is 0.99 of the prior's."
    ]
    (words,) = _of_priors_alone([("a", 0.991), ("b", 0.953)])
    assert words == "The video adds nothing to a, b: their standard deviations are 0.95 to 0.99 of the priors'."
