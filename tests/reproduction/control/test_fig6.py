"""Figures of the comparison, searches that are kept, and what the parts make of a task."""

import json
import math

import pytest
import torch
from checks import error

from gradsim.control.plant import Episode
from gradsim.control.task.setup import Setup
from gradsim.control.task.task import Task
from gradsim.control.training.history import History, Iteration
from gradsim.runtime.progress import NullProgress
from gradsim_reproduction.control import cloth, fig6, gear, methods, plots
from gradsim_reproduction.control.methods import IMAGE, Runs, mean_after, mean_at
from gradsim_reproduction.tables import markdown, write_table


def run(method: str, errors: list[float], rollouts: int = 1) -> History:
    """Losses fall steadily, whatever the errors do."""
    entries = [Iteration(1 / (k + 1), 1.0, 0.1, rollouts, 100 * rollouts, 0.0, e) for k, e in enumerate(errors)]
    return History(entries, names={"method": method, "goal": 1})


def test_errors_are_raw_means_over_goals_after_so_many_steps():
    runs = [run(IMAGE, [4.0, 2.0, 3.0]), run(IMAGE, [2.0, 1.0, 0.5]), run("random", [9.0] * 3)]
    assert [mean_at(runs, IMAGE, k) for k in range(4)] == [3.0, 1.5, 1.75, None]
    assert mean_at(runs, "nobody", 0) is None


def test_searches_that_take_many_rollouts_are_read_where_the_steps_are_as_many():
    """300 steps are three rollouts, or the first batch of two and no second."""
    runs = [run("cma", [5.0, 4.0, 3.0], 2), run("random", [6.0, 5.0, 4.0, 3.0])]
    assert mean_after(runs, "cma", 300) == 5.0 and mean_after(runs, "random", 300) == 4.0
    assert mean_after(runs, "cma", 100) is None  # not even one batch


def test_figures_of_the_gear_are_held_against_the_goals_of_the_issue_and_the_paper():
    found = gear.figures([run(IMAGE, [9.0 / (k + 1) ** 2 for k in range(41)])])
    assert found["gear_error_20"] == {"value": pytest.approx(9 / 441), "paper": 0.441, "goal": 0.107, "ok": True}
    assert found["gear_error_40"]["ok"] and found["gear_error_1"]["goal"] is None
    assert not gear.figures([run(IMAGE, [0.2] * 41)])["gear_error_20"]["ok"]
    assert set(gear.figures([run(IMAGE, [1.0] * 11)])) == {f"gear_error_{k}" for k in (1, 2, 5, 9)}


def test_figures_of_the_cloth_say_what_is_reached_by_fifteen():
    found = cloth.figures([run(IMAGE, [0.25] * 41), run(cloth.RIM, [0.1] * 41)])
    assert not found["cloth_error_15"]["ok"] and found["cloth_heavy_rim_error_15"]["value"] == pytest.approx(0.1)


def test_the_floor_is_that_of_a_gear_whose_tips_touch_the_ground():
    """Its tips are between its radius at the tips and half a tooth less below its centre, at 2 m."""
    setup = Setup.of(Task.load("gear"), 0, quick=True)
    x = setup.plant.model.systems[0].rest
    radius = torch.linalg.vector_norm(x[:, :2], dim=1).max().item()
    assert (2 - radius) ** 2 / 3 - 1e-6 < gear.floor(setup) < 1.2 * (2 - radius) ** 2 / 3


def test_a_heavy_rim_has_the_mass_of_the_original_at_every_point():
    """Its centre of mass is that of the even sheet, so the goal's centre is the same."""
    setup = Setup.of(Task.load("cloth"), 3, quick=True)
    model, still = setup.plant.model, torch.zeros(1, 1, 3)
    before = Episode(model.rollout(frames=1), still).centre()
    cloth.equalize_masses(setup)
    mass = model.systems[0].mass(model.values())
    assert error(mass, torch.full_like(mass, 2.0)) < 1e-12
    assert error(Episode(model.rollout(frames=1), still).centre(), before) < 1e-12


def test_searches_are_kept_and_their_policies_with_them(tmp_path, monkeypatch):
    setup, calls = Setup.of(Task.load("cloth"), 2, quick=True), []

    def method(setup, seed, progress):
        calls.append(seed)
        return methods.from_image(setup, seed, progress)

    first = [
        Runs(tmp_path, "cloth", {"seed": 0}, NullProgress()).run(IMAGE, method, setup, 2, 2, triangles=9)
        for _ in range(2)
    ]
    assert calls == [2] and first[0].json() == first[1].json() and len(first[0]) == 3
    assert first[0].names == {"method": IMAGE, "goal": 2, "triangles": 9}
    assert set(methods.load_policies(tmp_path, "cloth", 2)) == {"first", "middle", "best", "last"}


def test_the_cost_of_a_image_is_measured_beside_the_physics():
    spent = methods.iteration_seconds(Setup.of(Task.load("cloth"), 0, quick=True), repeats=1)
    assert 0 < spent["physics"] < spent["whole"] * 3


def test_the_table_has_the_papers_errors_beside_ours(tmp_path):
    runs = [run(method, [0.2205] * 41) for method in (IMAGE, gear.ADAM, gear.SHARED, "random")]
    found = gear.figures(runs) | {
        "gear_floor": {"value": 0.0085, "paper": None},
        "cloth_heavy_rim_diffphysics_error_15": {"value": 0.3, "paper": None},
        "walker_iterations": {"value": math.inf, "paper": 3},
    }
    lines = markdown(write_table(tmp_path, "Fig. 6", fig6.rows(found))).splitlines()
    assert "| gear: from a picture, 20 iterations | 0.441 | 0.221 | 2 |" in lines
    assert "| gear: told the place in 3-D, Adam, 40 iterations | 0.082 | 0.221 | 0.372 |" in lines
    assert "| gear: from a picture, a number for each element, 20 iterations | – | 0.221 | – |" in lines
    assert "| gear: random policies, as many steps | – | 0.221 | – |" in lines
    assert "| cloth: told the place in 3-D, Adam, 2 kg at each point, 15 iterations | – | 0.3 | – |" in lines
    assert "| walker: iterations to the goal, median | 3 | inf | 0 |" in lines
    assert len(lines) == 4 + len(found) - 1, "the floor is no error of a method"


def test_the_image_has_curves_of_all_methods(tmp_path):
    report = plots.draw(tmp_path, "gear", [run(IMAGE, [3.0, 1.0]), run("cma", [3.0, 2.0], 16)], 0.0085)
    assert (tmp_path / report["file"]).stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.timeout(1200)  # some 100 CPU seconds
def test_the_quick_form_meets_its_goals_and_goes_on(tmp_path):
    from gradsim.app.experiments import reproduce

    result = reproduce("fig6", tmp_path, quick=True)
    assert result["figures"]["cloth_error_15"]["ok"] and result["figures"]["gear_image_over_physics"]["ok"]
    assert "| gear: from a picture, 9 iterations | 0.769 |" in (tmp_path / "table.md").read_text()
    again = reproduce("fig6", tmp_path, quick=True)
    assert json.dumps(again["figures"]) == json.dumps(result["figures"])
