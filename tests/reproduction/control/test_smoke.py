"""Smoke that forms pictures: the pictures, the unknowns, the search, and a quick form of all."""

import json

import pytest
import torch

from gradsim.physics.smoke.grid import Grid
from gradsim_reproduction.control.smoke import (
    FIRST,
    Evaluation,
    StreamFunction,
    descend,
    disc,
    form,
    ratio,
    smoke,
    summary,
    targets,
)


def test_the_disc_has_the_mass_of_the_image_and_is_none_of_them():
    for name, image in targets(32).items():
        start = disc(32, image.sum())
        assert start.sum() == pytest.approx(image.sum().item())
        assert start.min() >= 0 and start.max() < 1.02
        assert (start - image).square().mean() > 0.1, name


def test_images_are_the_same_on_all_grids():
    small, large = targets(64), targets(256)
    for name, image in small.items():
        averaged = torch.nn.functional.avg_pool2d(large[name][None], 4)[0]
        assert (averaged - image).abs().max() < 0.15, name  # in a corner; edges are 1.3 cells of 64 wide


def test_a_ring_has_a_hole_and_a_letter_an_opening():
    images = targets(64)
    assert images["ring"][32, 32] < 0.01 and images["ring"][32, 48] > 0.95
    assert images["letter"][32, 16] > 0.95 and images["letter"][27, 48] < 0.05
    row = images["blobs"].amax(0) > 0.5  # two intervals of columns, side by side
    assert (row[1:] != row[:-1]).sum() == 4


def test_velocities_of_the_unknowns_have_no_divergence():
    waves, grid = StreamFunction(24), Grid((24, 24), 1 / 24)
    z = waves.random(0, 0.3)
    velocity = waves.velocity(z)
    assert grid.divergence(velocity).abs().max() < 1e-12
    assert velocity.square().mean().sqrt() == pytest.approx(0.3)
    assert (velocity - waves.velocity(z + 7)).abs().max() < 1e-12  # a constant moves nothing


def test_the_search_solves_a_quadratic_within_its_evaluations():
    waves = StreamFunction(8)
    generator = torch.Generator().manual_seed(0)
    goal, weight = torch.randn(2, 8, 8, generator=generator, dtype=torch.float64)
    weight, losses = weight.exp(), []

    def evaluate(z):
        losses.append((weight * (z - goal).square()).sum().item())
        return Evaluation(losses[-1], 2 * weight * (z - goal))

    descend(evaluate, waves, torch.zeros(8, 8, dtype=torch.float64), 120)
    assert len(losses) <= 120
    assert min(losses) < 1e-6 * losses[0]
    assert losses[1] < losses[0]


def test_the_first_step_changes_the_velocity_as_far_as_it_may():
    waves, seen = StreamFunction(8), []

    def evaluate(z):
        seen.append(z)
        return Evaluation(-z.sum().item(), torch.full_like(z, -1.0) + waves.random(1, 0.1))

    descend(evaluate, waves, torch.zeros(8, 8, dtype=torch.float64), 2)
    assert waves.speed(seen[1]) == pytest.approx(FIRST)


def test_a_record_counts_from_its_disc_and_the_worst_image_decides():
    one = {"target": "ring", "cells": 128, "first": 0.2, "curve": [0.2, 0.1, *[0.004] * 30], "divergence": 1e-13}
    two = {**one, "target": "blobs", "curve": [0.2, 0.02, 0.1, *[0.03] * 29], "divergence": 1e-12}
    assert ratio(two, 2) == pytest.approx(0.1) and ratio(two, 30) == pytest.approx(0.1)
    figures = summary([one, two])
    assert figures["mse_ratio_30"]["value"] == pytest.approx(0.1) and not figures["mse_ratio_30"]["ok"]
    assert figures["mse_ratio_30_ring_128"]["value"] == pytest.approx(0.02)
    assert summary([{**two, "cells": 32}])["mse_ratio_30"]["goal"] is None  # of a trial
    assert figures["divergence_max"]["value"] == 1e-12 and "mse_ratio_49" not in figures


def test_a_search_brings_the_smoke_nearer_to_its_image():
    record, kept = form(targets(16)["blobs"], 8, seed=0)
    assert len(record["curve"]) == 8 and record["divergence"] < 1e-10
    assert min(record["curve"]) < 0.5 * record["first"]
    assert kept["video"].shape == (100, 16, 16) and kept["after_1"].shape == (16, 16)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_writes_figures_images_and_videos(tmp_path):
    result = smoke(tmp_path, quick=True)
    assert result["figures"]["mse_ratio_30"]["value"] < 0.1  # 32² cells blur more than the original's 110²
    assert result["figures"]["divergence_max"]["ok"]
    written = json.loads((tmp_path / "result.json").read_text())
    files = [p["file"] for p in written["images"]] + [f["file"] for f in written["videos"]]
    assert files and all((tmp_path / name).stat().st_size > 1000 for name in files)
    again = smoke(tmp_path, quick=True)  # from the ledger
    assert again["figures"] == result["figures"]
