"""`reproduce pendula`: what is looked for, what is seen, and how it is told; the quick form as a whole."""

import json

import numpy as np
import pytest
import torch

from gradsim.app.experiments import reproduce
from gradsim.app.report.report import write_report
from gradsim.identification.observation.labelled_masks import LabelledMasks
from gradsim.identification.scene_models import model_for
from gradsim.scene import Scene
from gradsim_reproduction.pendulums import pendulums as experiment
from gradsim_reproduction.pendulums.fits import float_fit, truth_of
from gradsim_reproduction.pendulums.pendulums import summary
from gradsim_reproduction.pendulums.tasks import VideoTask, observe_video, rollout_of, tasks

TASKS = tasks()


@pytest.fixture(scope="module")
def short():
    """The double pendulum for half a second at 48²."""
    task = TASKS["double"]
    content = task.scene.model_dump()
    content["timing"]["frames"], content["camera"]["size"] = 16, [48, 48]
    return VideoTask("double", Scene.parse(content), task.unknowns, task.title)


def test_all_that_the_paper_names_is_unknown():
    """C.3: lengths of the rods and initial angles; A.1: rest lengths, stiffness and damping of springs."""
    names = {name: set(task.space().names) for name, task in TASKS.items()}
    assert {"bob.string_length", "bob.angle", "bob.rate", "bob.damping", "gravity.z"} == names["simple"]
    arms = {f"arms.{arm}_{key}" for arm in ("first", "second") for key in ("length", "angle", "rate")}
    assert arms | {"arms.second_mass", "arms.damping", "gravity.z"} == names["double"]
    for kind in ("chain", "rope", "net"):
        assert {f"{kind}.{key}" for key in ("stiffness", "damping", "rest_length_factor")} == names[kind]


@pytest.mark.slow
def test_truths_and_starts_fill_the_same_ranges_from_different_streams():
    task = TASKS["double"]
    space = task.space()
    truths = torch.stack([truth_of(task, n, 0) for n in range(200)])
    starts = space.draw(np.random.default_rng([0, 0]), 200)
    for u in (space.numbers(truths), space.numbers(starts)):
        ends = torch.tensor([space.range(k) for k in range(len(space))])
        share = (u - ends[:, 0]) / (ends[:, 1] - ends[:, 0])
        assert share.min() >= 0 and share.max() <= 1
        assert (share.mean(0) - 0.5).abs().max() < 4 * (1 / 12 / 200) ** 0.5
    assert not torch.isclose(truths[0], starts[0]).any()


def test_errors_are_relative_where_the_range_leaves_0_out():
    task = TASKS["double"]
    truth = task.space().numbers(truth_of(task, 0, 0)).tolist()
    off = [1.01 * x for x in truth]
    errors = task.errors(off, truth)
    assert errors["arms.first_length"] == pytest.approx(0.01)
    k = task.space().names.index("arms.first_angle")
    assert errors["arms.first_angle"] == pytest.approx(0.01 * abs(truth[k]) / 5.0)


def test_noise_of_shares_is_the_stated_one(short):
    space, truth = short.space(), truth_of(short, 3, 0)
    trajectory = rollout_of(model_for(short.scene, space), space, truth, 16)
    exact, noisy = observe_video(short.scene, trajectory), observe_video(short.scene, trajectory, noise=1)
    assert isinstance(exact, LabelledMasks) and isinstance(noisy, LabelledMasks) and exact.names == noisy.names
    off = (noisy.shares - exact.shares).transpose(0, 1).flatten(1)
    np.testing.assert_allclose(off.std(1), noisy.sigmas, rtol=0.05)


@pytest.mark.slow
def test_a_video_gives_its_truth_back():
    record = float_fit(TASKS["ball"], 1, 0, starts=4, lone=1)
    assert max(record["errors"].values()) < 1e-6
    assert json.loads(json.dumps(record))["alone"] in ([True], [False])


def test_figures_are_the_worst_unknown_of_the_median_video():
    names = TASKS["ball"].space().names
    errors = np.array([[1e-9, 2e-9, 3e-9, 1e-8], [1e-7, 1e-9, 1e-9, 1e-9], [1e-9, 1e-3, 1e-9, 1e-7]])
    truth = [1.0, 1.0, -9.8, 0.1]
    records = [
        {
            "task": "ball",
            "noise": False,
            "errors": dict(zip(names, e, strict=True)),
            "alone": [True, False],
            "truth": truth,
        }
        for e in errors.tolist()
    ]
    found = summary(TASKS, records, {"rank": 2, "null": [{}]})
    value = {name: f["value"] for name, f in found.items()}
    assert value["ball_rel_err"] == 1e-8 and found["ball_rel_err"]["ok"]
    assert value["ball_worst"] == 1e-3 and value["ball_videos_solved"] == pytest.approx(2 / 3)
    assert value["ball_lone_starts_solved"] == 0.5 and value["mass_scale_flagged"] == 1
    assert 1e-9 < value["ball_restitution_err"] < 1e-7
    assert summary(TASKS, records, {"rank": 3, "null": []})["mass_scale_flagged"]["ok"] is False


def test_a_finished_run_gets_its_page(tmp_path, monkeypatch):
    """The command writes a page from result.json; its `unknowns` would be read as estimates of a fit."""
    errors = dict.fromkeys(TASKS["simple"].space().names, 1e-9)
    truth = TASKS["simple"].space().numbers(truth_of(TASKS["simple"], 0, 0)).tolist()
    record = {"task": "simple", "number": 0, "truth": truth, "errors": errors, "alone": [True]}
    monkeypatch.setattr(experiment, "QUICK", {"simple": 1})
    monkeypatch.setattr(experiment, "float_fit", lambda *words: record)
    monkeypatch.setattr(experiment, "mass_scale", lambda *words: {"rank": 2, "null": [{}]})
    reproduce("pendula", tmp_path, quick=True)
    assert "simple_rel_err" in write_report(tmp_path).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_quick_form_solves_every_task_and_flags_the_scale_of_mass(tmp_path):
    result = reproduce("pendula", tmp_path, quick=True)
    for name in ("simple", "double", "chain", "ball"):
        assert result["figures"][f"{name}_rel_err"]["ok"], name
    assert result["figures"]["mass_scale_flagged"]["ok"]
    assert "one common factor" in result["mass_scale"]["null"][0]["explanation"]
    assert all((tmp_path / image["file"]).stat().st_size > 5000 for image in result["images"])
    again = reproduce("pendula", tmp_path, quick=True)  # from the ledger
    assert again["figures"] == result["figures"]
