"""Fig. 3: its scenes tell what is asked, descent falls to the truth, and its iterations are counted as they should be."""

import json

import numpy as np
import pytest
import torch

from gradsim.app.experiments import reproduce
from gradsim.identification import synthetic
from gradsim.identification.problem import Problem
from gradsim.identification.scene_models import model_for, parameter_values
from gradsim.identification.unknowns import Space
from gradsim_reproduction.convergence.fig3 import descend, settling_iteration, summary, table_rows
from gradsim_reproduction.convergence.scenes import TASKS, DescentTask


def test_iterations_count_until_the_error_stays_small():
    errors = np.array(
        [[0.5, 0.5, 0.001], [0.001, 0.5, 0.001], [0.5, 0.5, 0.001], [0.001, 0.001, 0.5], [0.001, 0.5, 0.5]]
    )
    assert settling_iteration(errors).tolist() == [3, np.inf, np.inf]
    assert settling_iteration(errors[:, :1] * 0).tolist() == [0]


@pytest.mark.parametrize("name", TASKS)
def test_a_task_keeps_to_its_iterations(name):
    task = TASKS[name]
    assert sum(stage[1] for stage in task.stages) <= task.iterations
    first, again, other = task.scene(0, 3), task.scene(0, 3), task.scene(1, 3)
    assert first == again != other


def test_iterations_are_a_goal_of_ours_and_no_figure_of_the_paper():
    one = {"errors": [[0.5], [0.001]], "best": 0, "ls_error": 0.0, "ls_iterations": 7, "ls_rollouts": 20}
    figures = summary([{**one, "task": name} for name in TASKS])
    for name, task in TASKS.items():
        assert figures[f"{name}_iterations"] == {"value": 1, "paper": None, "goal": task.iterations, "ok": True}


def test_the_table_has_a_row_of_each_way_and_no_number_of_the_paper():
    one = {"errors": [[0.5], [2e-3]], "best": 0, "ls_error": 1e-13, "ls_iterations": 7, "ls_rollouts": 100}
    rows = table_rows(summary([{**one, "task": name} for name in TASKS]))
    assert [row["ours"] for row in rows] == [2e-3, 1e-13] * len(TASKS)
    assert all(row["paper"] is None for row in rows) and rows[0]["name"] == "mass: 100 iterations of descent"


def test_descent_falls_towards_the_truth():
    task = DescentTask("mass", "body.mass:2:12", 100, ((8, 8, 0.2),))
    scene = task.scene(0, 1)
    space = Space(scene, [task.unknown])
    model = model_for(scene, space)
    with torch.no_grad():
        observation = synthetic.float_masks(scene, model.rollout(parameter_values(scene, {"body.mass": 5.0})))
    path, _ = descend(Problem(model, observation, space), task, torch.tensor([[8.0], [3.0]]).double().log())
    assert path.shape == (9, 2) and (path[0] - torch.tensor([8.0, 3.0])).abs().max() < 1e-12
    assert ((path[-1] / 5 - 1).abs() < 0.4 * (path[0] / 5 - 1).abs()).all()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_finds_mass_friction_and_elasticity(tmp_path):
    result = reproduce("fig3", tmp_path, quick=True)
    assert all(entry["ok"] for entry in result["figures"].values())
    listed = [entry["file"] for entry in [*result["videos"], *result["images"]]]
    assert len(listed) == 7 and all((tmp_path / name).stat().st_size > 0 for name in listed)
    assert json.loads((tmp_path / "result.json").read_text())["figures"]["mass_found"]["value"] == 1
