"""Mass without a known force: the null direction of the paper's law, from the tangents and from a whole fit."""

import json

import numpy as np
import pytest
import torch

from gradsim.identification import synthetic
from gradsim.identification.problem import Problem
from gradsim.identification.uncertainty.fisher import Uncertainty, analyze
from gradsim.identification.unknowns import Space
from gradsim_reproduction.rigid.no_push import EXPECTED, UNKNOWNS, no_push, scenes


def verdict(scene, has_push: bool) -> Uncertainty:
    """What the Fisher information says at the truth."""
    truth = synthetic.draw_truth(scene, UNKNOWNS, 0)
    model, trajectory = synthetic.simulate(scene, UNKNOWNS, truth)
    problem = Problem(model, synthetic.float_masks(scene, trajectory), Space(scene, UNKNOWNS))
    inner = problem.space.inner(torch.tensor([list(truth.values())], dtype=torch.float64))
    _, fisher, _ = problem.linearize(inner, problem.frames)
    return analyze(problem.space, fisher[0], has_push)


def test_without_a_push_mass_stiffness_and_damping_have_a_common_factor():
    found = verdict(scenes()[1], has_push=False)
    (direction,) = found.null
    combination = np.array(list(direction.combination.values()))
    assert np.linalg.norm(combination - EXPECTED) < 1e-3
    assert found.rank == 4 and "known impulse" in direction.explanation
    friction = UNKNOWNS.index("ground.friction:0.2:1")
    assert found.relative[friction] < 0.1 and (found.relative[:4] > 0.1).all()


def test_with_the_push_everything_is_determined():
    found = verdict(scenes()[0], has_push=True)
    assert found.rank == 5 and not found.null


def test_the_two_scenes_differ_in_their_push_alone():
    pushed, free = scenes()
    counts = [len(scene.model_dump()["bodies"]["cube"]["pushes"]) for scene in (pushed, free)]
    assert counts == [1, 0]
    assert pushed.grounds == free.grounds and pushed.timing == free.timing and pushed.camera == free.camera


@pytest.mark.slow
def test_the_fit_is_flagged_without_the_push_and_answered_with_it(tmp_path):
    result = no_push(tmp_path, quick=True)
    figures = result["figures"]
    assert result["status"] == "unidentifiable" and figures["flagged"]["value"] == 1
    assert figures["null_direction_error"]["value"] < 1e-3
    assert figures["answered_with_push"]["ok"] and all(f["ok"] for f in figures.values())
    assert json.loads((tmp_path / "result.json").read_text())["figures"].keys() == figures.keys()
