import numpy as np
import pytest
import torch

from gradsim.identification import synthetic
from gradsim.physics.model import Model
from gradsim.runtime.progress import NullProgress
from gradsim_reproduction.observation_modes import observe
from gradsim_reproduction.rigid import joint as experiment
from gradsim_reproduction.rigid.joint_scenes import CONVEX, OTHER, case


@pytest.mark.parametrize("shape", (*CONVEX, *OTHER))
def test_a_scene_starts_just_above_the_ground_and_never_knows_its_truth(shape, tmp_path):
    one = case("paper", shape, 3, 0, tmp_path)
    model = Model(one.scene)  # refuses a body that starts inside the ground
    body = one.scene.bodies["body"]
    low = model.rollout(frames=1).surface.vertices[0, 0, :, 2].min().item()
    assert 0.015 < low < 0.31 and body.mass == 7.0 and one.scene.grounds["ground"].friction == 0.5
    assert one.scene == case("paper", shape, 3, 0, tmp_path).scene
    assert one.scene != case("paper", shape, 4, 0, tmp_path).scene


@pytest.mark.slow
@pytest.mark.parametrize(("law", "shape"), [("continuous", "mesh"), ("paper", "capsule")])
def test_five_parameters_are_found_to_a_millionth_from_starts_over_the_whole_ranges(law, shape, tmp_path):
    record = experiment.solve(case(law, shape, 4, 0, tmp_path), 4, "float", NullProgress())
    assert record["identifiable"] and record["status"] == "ok"
    assert max(record["errors"].values()) < 1e-6


def test_foreign_targets_differ_from_ours_by_renderer_and_time_step(tmp_path):
    one = case("continuous", "box", 0, 0, tmp_path)
    truth = synthetic.draw_truth(one.scene, one.unknowns, 0)
    model = Model(one.scene)
    ours, other = (observe(one.scene, truth, model, kind, 0).masks for kind in ("float", "foreign"))
    assert (ours[0] - other[0]).abs().max() < 1 / 64  # the start: another renderer alone
    assert (ours - other).abs().max() > 0.05  # later: a step a quarter as long, so another landing
    assert torch.isfinite(other).all()


def record(**changes):
    names = ("body.mass", "ground.stiffness", "ground.damping", "ground.friction_stiffness", "ground.friction")
    plain = {
        "law": "paper",
        "group": "convex",
        "frames": "float",
        "identifiable": True,
        "status": "ok",
        "kinked": False,
    }
    plain |= {
        "errors": dict.fromkeys(names, 1e-10),
        "z": dict.fromkeys(names, 1.0),
        "inside": dict.fromkeys(names, True),
    }
    return plain | {"converged": 0.5, "cpu_seconds": 1.0, "chi2_per_n": 0.0} | changes


def test_figures_count_what_they_say():
    wrong = {**record()["errors"], "body.mass": 0.1}
    records = [record(), record(errors=wrong), record(identifiable=False, status="unidentifiable", errors=wrong)]
    records += [record(identifiable=False), record(status="unidentifiable"), record(frames="8bit", kinked=True)]
    figures = experiment.summary(records, foreign=False)
    value = lambda name: figures[name]["value"]
    assert value("identifiable_share") == 3 / 5
    assert value("solved_of_identifiable") == pytest.approx(2 / 3) and not figures["solved_of_identifiable"]["ok"]
    assert value("missed_flags") == 1 and value("false_flags") == 1
    assert value("rel_err_worst") == 0.1 and value("rel_err_median") == 1e-10
    assert value("covered_by_95") == 1 and np.isnan(value("z_rms")) and value("kinked_share") == 1
