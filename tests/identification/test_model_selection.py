"""Candidate models: edits of a scene, criteria, and the choice between models that differ in what moves them."""

import math

import pytest
import torch
from fit_cases import THROW, THROW_TRUTH, recorded, swing, throw
from tolerances import SOLVED, near

from gradsim.errors import InputError
from gradsim.identification.comparison.candidates import STANDARD_CANDIDATES, edit_scene, standard_candidate
from gradsim.identification.comparison.folds import GIVEN_MODEL
from gradsim.identification.model_selection import compare
from gradsim.identification.observation.base import Masks
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.scene import Scene

SIGMA = 0.01
SPEED = "cube.velocity.x:-1:3"


def seen(seed: int = 0) -> Masks:
    """The thrown box with noise."""
    clean = recorded(throw(), THROW, THROW_TRUTH).observation
    assert isinstance(clean, Masks)
    noise = torch.randn(clean.masks.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Masks(clean.masks + SIGMA * noise, SIGMA, clean.silhouettes)


def test_a_model_without_gravity_is_flagged_and_not_chosen():
    """The scene as given lacks gravity; the candidate that has it explains the film, and finds the speed."""
    wrong = edit_scene(throw(), (), {"gravity": [0, 0, 0]})[0]
    found = compare(
        wrong,
        THROW,
        observation=seen(),
        candidates={"with gravity": {"gravity": 9.81}, "with wind": {"gravity": [1.0, 0, 0]}},
        plan=MultistartConfig(starts=2, rounds=0, explore=False, polish=1, rtol=1e-6),
    )
    assert found.candidates[GIVEN_MODEL].fit.status == found.candidates["with wind"].fit.status == "mismatch"
    assert found.chosen == "with gravity" and found.best.fit.status == "ok" and found.inflation == 1
    assert found.best.fit.values["cube.mass"] == pytest.approx(THROW_TRUTH["cube.mass"], rel=0.02)
    assert found.best.weight > 0.999 and "choose the model with gravity" in found.words
    given = found.candidates[GIVEN_MODEL]
    assert given.bic - found.best.bic == near(given.chi2 - found.best.chi2, SOLVED)  # as many unknowns


def test_an_unknown_that_is_not_needed_costs_log_n():
    """Sideways speed is 0 in truth: solving for it lowers χ² by about 1 and costs log N; BIC takes the simpler model."""
    found = compare(
        throw(),
        THROW,
        observation=seen(),
        candidates={"also sideways": {"unknowns": ["cube.velocity.y:-0.5:0.5"]}},
        plan=MultistartConfig(starts=2, rounds=0, polish=1),
    )
    simple, rich = found.candidates[GIVEN_MODEL], found.candidates["also sideways"]
    assert (simple.parameters, rich.parameters) == (2, 3)
    fall = simple.chi2 - rich.chi2
    assert -1e-3 < fall < 11  # nested: never more; above 11 in 1 of 1000 cases
    assert rich.bic - simple.bic == near(math.log(found.informative) - fall, SOLVED)
    assert rich.aic - simple.aic == near(2 - fall, SOLVED)
    assert found.chosen == GIVEN_MODEL


def test_what_a_candidate_sets_is_no_unknown():
    scene = Scene.library("cube")
    unknowns = ("cube.mass:2:12", "ground.friction:0.2:1", "ground.friction_stiffness:1:200", "cube.velocity.x:0:1")
    changed, left = edit_scene(scene, unknowns, standard_candidate("without friction", scene, unknowns))
    assert changed.grounds["ground"].friction == 0 and scene.grounds["ground"].friction == 0.5
    assert [u.name for u in left] == ["cube.mass", "cube.velocity.x"]  # pyright: ignore[reportAttributeAccessIssue]
    _, left = edit_scene(scene, unknowns, {"cube.velocity": [0, 0, 0]})
    assert "cube.velocity.x" not in [u.name for u in left]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_body_of_another_type_takes_the_place_of_one_and_of_its_unknowns():
    """A soft box for the rigid one: a film of the rigid one refutes it, and tells the mass of the rigid one."""
    soft = {"kind": "solid", "shape": {"box": {"size": [0.5, 0.4, 0.3], "cells": [1, 1, 1]}}, "density": 60}
    soft |= {"young": 2000, "poisson": 0.3, "position": [-0.4, 0, 0.6], "angular_velocity": [0, 0, 8]}
    soft |= {"pushes": [{"impulse": [2.0, 0.5, 6.0]}]}
    changes = {"cube": soft, "timing.substeps": 32, "unknowns": ["cube.density:15:130"]}
    changed, left = edit_scene(throw(), THROW, changes)
    assert changed.bodies["cube"].kind == "solid" and throw().bodies["cube"].kind == "rigid"
    assert [u.name for u in left] == ["cube.density"]  # pyright: ignore[reportAttributeAccessIssue]
    plan = MultistartConfig(starts=2, rounds=0, explore=False, polish=0, rtol=1e-6)
    found = compare(throw(), THROW, observation=seen(), candidates={"soft": changes}, plan=plan, sampled=False)
    assert found.chosen == GIVEN_MODEL and found.candidates["soft"].fit.status == "mismatch"
    assert found.best.fit.values["cube.mass"] == pytest.approx(THROW_TRUTH["cube.mass"], rel=0.02)


def test_the_law_of_the_paper_brings_its_own_damping():
    scene = Scene.library("cube")
    unknowns = ("cube.mass:2:12", "ground.dissipation:0.1:2")
    changed, left = edit_scene(scene, unknowns, standard_candidate("paper law", scene, unknowns))
    assert changed.grounds["ground"].law == "paper"
    assert [u.name for u in left] == ["cube.mass", "ground.damping"]  # pyright: ignore[reportAttributeAccessIssue]
    back, left = edit_scene(changed, left, standard_candidate("continuous law", changed, left))
    assert back.grounds["ground"].law == "continuous"
    assert [u.name for u in left] == ["cube.mass", "ground.dissipation"]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", [n for n in STANDARD_CANDIDATES if n != "continuous law"])
def test_every_standard_candidate_makes_a_scene(name):
    content = Scene.library("cube").model_dump(exclude_unset=True)
    content["timing"]["integrator"] = "semi-implicit"  # which the candidate `rk4` changes
    scene, unknowns = Scene.parse(content), ("cube.mass:2:12", "ground.stiffness:2e4:5e5")
    edit_scene(scene, unknowns, standard_candidate(name, scene, unknowns))


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        (["without fricton"], "did you mean `without friction`"),
        (["without friction"], "changes nothing"),
        ({"x": {"floor.friction": 0}}, "has no `floor`"),
        ({GIVEN_MODEL: {"gravity": 0}}, "choose another name"),
        ({"x": {"bob.angle": "steep"}}, "angle"),
    ],
)
def test_bad_candidates_are_refused_before_work(candidates, words):
    observation = recorded(swing(), ("bob.angle:0.5:1.2",), {"bob.angle": 0.8}).observation
    with pytest.raises(InputError, match=words):
        compare(swing(), ("bob.string_length:0.3:0.6",), observation=observation, candidates=candidates)
