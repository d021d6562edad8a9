"""Parts of `gradsim reproduce twin`."""

import math

import numpy as np
import pytest
import torch

from gradsim.errors import Status
from gradsim.identification.engines import contact_match
from gradsim.identification.engines.mujoco import MuJoCo, continuous
from gradsim.scene import Scene
from gradsim.scene.exporters.substitution import with_values
from gradsim_reproduction.real.cube_recordings import FPS, SIDE
from gradsim_reproduction.reality.cube import MASS
from gradsim_reproduction.twin.comparisons import contact, differences, motion
from gradsim_reproduction.twin.real_tosses import STEPS, ContactInMuJoCo
from gradsim_reproduction.twin.scenes import chain, drop, film
from gradsim_reproduction.twin.twin import summary

pytest.importorskip("mujoco", reason='MuJoCo is not installed: pip install "gradsim[engines]"')


@pytest.mark.slow
def test_a_chain_moves_alike_and_differences_fall_with_the_order_of_the_step():
    distances = {name: np.array(x) for name, x in motion((0, 0)).items()}
    order = {name: np.log2(x[-2] / x[-1]) for name, x in distances.items()}
    assert distances["rk4"][-1] < 1e-6 and order["rk4"] == pytest.approx(4, abs=0.5)
    assert order["semi-implicit"] == pytest.approx(1, abs=0.3)


def test_a_drop_is_measured_in_both_engines(monkeypatch):
    monkeypatch.setattr(contact_match, "TRIES_PER_SPREAD", 1)
    monkeypatch.setattr(contact_match, "EVALUATIONS", 1)
    monkeypatch.setattr(contact_match, "SECONDS", 1.25)
    record = contact((1, 0))
    assert set(record) == {"paper", "continuous"}
    for law in record.values():
        assert set(law) == {"slide", "bounce", "settled"}
        assert all(0 < x < 3 for row in law.values() for x in row)  # m and s of a box dropped from 0.8 m at most


def test_differences_see_a_wrong_mass_and_a_shifted_joint():
    from dataclasses import replace

    from gradsim.scene.exporters.build import twin_of

    one, other = twin_of(chain(0, 0)), twin_of(chain(0, 0))
    assert max(differences(one, other).values()) == 0
    other.links["link0"] = replace(other.links["link0"], mass=1.01 * one.links["link0"].mass)
    other.tree["link1"] = replace(other.tree["link1"], child_point=one.tree["link1"].child_point + [0, 0.002, 0])
    off = differences(one, other)
    assert off["mass"] == pytest.approx(0.01) and off["place"] == pytest.approx(0.002) and off["inertia"] == 0


def test_scenes_repeat_with_their_seed_and_their_truth_is_not_in_them():
    assert drop(3, 0).model_dump() == drop(3, 0).model_dump() != drop(3, 1).model_dump()
    one = film(0, 0)
    assert one.truth["box.mass"] != one.scene.bodies["box"].mass


def test_summary_counts_silent_failures_and_coverage():
    same = {"mass": 1e-8, "inertia": 1e-8, "place": 1e-8}
    fit = {"status": Status.OK, "relative": 1e-5, "z": [0.3], "inside": [True], "cpu_seconds": 1.0, "rollouts": 9}
    fits = [
        {**fit, "engine": engine, "noise": noise} for engine in ("mujoco", "gradsim") for noise in ("float", "8-bit")
    ]
    wrong = [{**one, "z": [9.0], "inside": [False]} if one["noise"] == "8-bit" else one for one in fits]
    names = ("shoulder.friction", "delay")
    log = {"ok": True, "status": Status.OK, "cpu_seconds": 3.0}
    ours = log | {"error": {names[0]: 0.001, names[1]: 0.001}, "z": {names[0]: 9.0, names[1]: 0.1}}
    theirs = {"error": {names[0]: 0.05, names[1]: 0.0005}, "z": {}, "cpu_seconds": 1.0}
    film = {"relative_sd": 1e-4, "z": {"joints.elbow.damping": 0.5}, "status": Status.OK}
    drops = {"slide": [1.0, 1.02, 1.1], "bounce": [0.1, 0.11, 0.15], "settled": [1.0, 1.0, 1.0]}
    records = {
        "logs": [{"truth": {names[0]: 0.1, names[1]: 0.02}, "gradsim": ours, "sysid": theirs}],
        "logs and films": [{"log": film | {"relative_sd": 0.8}, "log and film": film}],
        "round trips": [dict.fromkeys(("mjcf", "urdf", "usd", "mjcf_in_mujoco", "urdf_in_mujoco"), same)],
        "motions": [{"rk4": [16e-8, 1e-8], "semi-implicit": [2e-3, 1e-3]}],
        "drops": [dict.fromkeys(("paper", "continuous"), drops)],
        "films": [{"fits": fits}, {"fits": wrong}],
        "tosses": [
            {engine: {"fitted_mm": 10.0, "predicted_mm": {"a": mm, "b": 3 * mm}} for engine, mm in errors}
            for errors in [(("gradsim", 10.0), ("mujoco", 12.0))]
        ],
    }
    figures = {name: one["value"] for name, one in summary(records).items()}
    assert figures["motion_rk4_order"] == pytest.approx(4) and figures["contact_paper_bounce_median"] == pytest.approx(
        0.1
    )
    assert figures["contact_by_formula_continuous_bounce_median"] == pytest.approx(0.5)
    assert figures["films_in_mujoco_8bit_coverage"] == 0.5 and figures["films_in_ours_silent"] == 1
    assert figures["logs_silent"] == 1 and figures["logs_sysid_lost"] == 1 and figures["logs_lost"] == 0
    assert figures["logs_cpu_over_sysid"] == figures["logs_cpu_over_sysid_median"] == 3.0
    assert math.isclose(figures["logs_error_over_sysid"], 0.02) and figures["logs_delay_error_over_sysid"] == 2
    assert figures["elbow_damping_sd_by_log"] == 0.8
    assert math.isclose(figures["films_in_mujoco_float_worst"], 1e-5)
    assert figures["tosses_in_ours_mm"] == 20 and math.isclose(figures["tosses_mujoco_over_ours"], 1.2)


def test_a_cube_is_moved_by_the_exported_model_with_the_numbers_of_each_world():
    """Tosses replace numbers in a compiled model; `engine="mujoco"` exports and compiles each world."""
    law, frames = ContactInMuJoCo(), 40
    u = np.random.default_rng(0).uniform(0.2, 0.8, (2, len(law.ranges)))
    start = {"cube.position": [0, 0, 0.2], "cube.velocity": [0.7, 0.1, -1], "cube.angular_velocity": [3, -2, 5]}
    start |= {
        "cube.rotation_vector": [0.3, -0.2, 0.5],
        "position_by_gravity": [0, 0, 0],
        "velocity_by_gravity": [0, 0, 0.01],
    }
    starts = [{key: torch.tensor(value).double() for key, value in start.items()}]
    x, q = law.poses(u, starts, frames)
    values = law.worlds(u, starts)
    cube = {"shape": {"box": {"size": [SIDE] * 3}}, "mass": MASS}
    content = {
        "timing": {"fps": FPS, "frames": frames},
        "bodies": {"cube": cube},
        "ground": {"law": "paper", "damping": 1},
    }
    scene = Scene.parse(content)
    for k in range(len(u)):
        numbers = {name: y[k].tolist() for name, y in values.items()}
        parts = {
            f"{name}.{axis}": y
            for name, value in numbers.items()
            if isinstance(value, list)
            for axis, y in zip("xyz", value, strict=True)
        }
        world = with_values(scene, {n: y for n, y in numbers.items() if not isinstance(y, list)} | parts)
        moved = MuJoCo(1 / (FPS * STEPS), "Euler")(world, np.arange(frames) / FPS)["cube"]
        assert np.abs(x[k, 0].numpy() - moved.position).max() < 1e-9
        assert np.abs(continuous(q[k, 0].numpy()) - moved.quat_xyzw).max() < 1e-9
    assert (x[0] - x[1]).abs().max() > 1e-3
