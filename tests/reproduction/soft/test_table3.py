"""Soft bodies from video: honest draws, and what one fit of each sort gives."""

import json

import numpy as np
import pytest
import torch

from gradsim.identification.unknowns import Space
from gradsim.runtime.progress import NullProgress
from gradsim_reproduction.soft import fields as many
from gradsim_reproduction.soft import table3 as few
from gradsim_reproduction.soft.scenes import KINDS, RANGES, instance


def test_truths_and_starts_are_log_uniform_over_the_same_decade():
    one = instance(0, seed=0)
    space = Space(one.scene, one.unknowns("lame"), decades=True)
    starts = space.numbers(space.draw(np.random.default_rng(0), 4000))
    truths = torch.tensor([list(few.draw_truth(space, seed).values()) for seed in range(400)])
    for drawn in (starts, truths):
        share = (drawn.log10() - torch.tensor([RANGES[k][0] for k in ("mu", "lam")]).log10()).double()
        assert 0 <= share.min() and share.max() <= 1
        assert (share.mean(0) - 0.5).abs().max() < 4 / np.sqrt(12 * len(drawn))  # four standard deviations of a mean


def test_scenes_do_not_know_the_truth():
    """The same numbers of the material stand in every scene, in the middle of the ranges."""
    for number in range(6):
        body = instance(number, seed=0).scene.bodies["body"]
        if body.kind == "solid":
            for key in ("mu", "lam", "density"):
                low, high = RANGES[key]
                assert getattr(body, key) == pytest.approx(np.sqrt(low * high), rel=0.06)
    assert instance(0, 0).scene != instance(0, 1).scene


def test_the_plan_asks_every_instance_for_everything():
    plan = list(few._plan(20, noisy=(2,), fields_of=range(6)))
    for number in range(20):
        kind = KINDS[number % 3]
        own = {(quantity, sight) for k, quantity, sight in plan if k == number}
        assert {(q, s) for q in few.QUANTITIES[kind] for s in ("float", "states")} <= own
        assert ((many.ASKED[kind], "video") in own) == (number < 6)
        assert any(sight == "8bit" for _, sight in own) == (number == 2)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_thrown_cloth_tells_its_velocity():
    one = instance(2, seed=0)
    record = few.fit_few(one, "velocity", "states", 3, NullProgress())
    assert max(record["errors"].values()) < 1e-12
    assert record["converged"] == 1


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_thrown_cloth_tells_the_velocity_of_its_vertices(tmp_path):
    record = many.fit(instance(2, seed=0), "particle_velocity", "states", 4, NullProgress(), tmp_path)
    assert record["rank"] > 20
    assert record["error"] < 1e-8


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_beam_through_the_whole_table(tmp_path):
    result = few.table3(tmp_path, scenes=1)
    figures = json.loads((tmp_path / "result.json").read_text())["figures"]
    assert figures == result["figures"]
    for name in ("mu_median", "lam_median", "density_median"):
        assert figures[name]["value"] < 1e-9
    assert figures["particle_mass_median"]["value"] < 1e-3
    assert (tmp_path / "errors.png").stat().st_size > 10_000
