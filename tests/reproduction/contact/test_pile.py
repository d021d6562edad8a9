"""Piles: scenes, checks and summary, and the quick form."""

import json

import pytest
import torch

from gradsim.physics.model import Model
from gradsim_reproduction.contact import pile, pile_checks, pile_scenes


def test_random_piles_start_apart_and_differ():
    model = Model(pile_scenes.scene())
    given = pile_scenes.random_pile(model, [0, 1, 7], 0)
    model.check(model.values(given))
    assert torch.equal(given["box0.position"][2], pile_scenes.random_pile(model, [7], 0)["box0.position"][0])
    assert (given["box0.position"][0] - given["box0.position"][1]).abs().min() > 1e-4


def test_energy_rises_are_counted_above_what_was_before():
    assert pile_checks.rise(torch.tensor([4.0, 2.0, 3.0, 1.0, 1.5])) == pytest.approx(0.25)
    assert pile_checks.rise(torch.tensor([4.0, 3.0, 3.0])) == 0


def test_a_scene_counts_with_the_widest_secant_that_changes_nothing():
    record = {
        "finite": True,
        "adjoint_sensitivity": 1e-15,
        "growth": 1.0,
        "touching": 1.0,
        "energy_rise": 0.0,
        "cpu_seconds": 1.0,
    }
    records = [
        {**record, "secants": {"1.2e-10": 5e-3, "1e-09": 1e-4}},
        {**record, "secants": {"1.2e-10": 5e-3}},
        {**record, "secants": {}},
    ]
    figures = pile.summary(records, [0.0], 0.0)
    assert figures["gradient_agrees_share"]["value"] == 0.5
    assert figures["unchanged_share"]["value"] == pytest.approx(2 / 3)
    assert figures["finite_share"]["ok"] and not figures["gradient_agrees_share"]["ok"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_has_finite_gradients_that_agree(tmp_path):
    result = pile.pile(tmp_path, quick=True)
    figures = result["figures"]
    assert figures["finite_share"]["value"] == 1
    assert figures["adjoint_sensitivity_worst"]["value"] < 1e-9
    assert figures["gradient_agrees_share"]["value"] == 1
    assert figures["momentum_drift"]["value"] < 1e-12
    assert (tmp_path / "pile.webm").exists() and (tmp_path / "piles.png").exists()
    kept = json.loads((tmp_path / "result.json").read_text())["figures"]
    assert pile.pile(tmp_path, quick=True)["figures"]["secant_error_worst"] == kept["secant_error_worst"]
