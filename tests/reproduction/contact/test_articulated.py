"""The experiment on joints: honest draws, its comparisons, and its quick form."""

import numpy as np
import pytest
import torch
from PIL import Image

from gradsim.identification.unknowns import Space
from gradsim_reproduction.contact import articulated, chain
from gradsim_reproduction.soft.table3 import draw_truth


def test_truths_and_starts_fill_the_same_ranges_and_arms_do_not_know_them():
    scene = articulated.arm(0, seed=0)
    space = Space(scene, articulated.UNKNOWNS, decades=True)
    low, high = torch.tensor([space.range(k) for k in range(len(space.names))]).double().T
    starts = space.numbers(space.draw(np.random.default_rng(0), 400))
    truths = torch.tensor([list(draw_truth(space, seed).values()) for seed in range(100)])
    for drawn in (starts, truths):
        assert (drawn >= low * (1 - 1e-12) - 1e-12).all() and (drawn <= high * (1 + 1e-12)).all()
        middle = torch.where(low > 0, (low * high).sqrt(), (low + high) / 2)
        assert ((drawn < middle).double().mean(0) - 0.5).abs().max() < 4 * 0.5 / len(drawn) ** 0.5
    one, other = articulated.arm(1, seed=0), articulated.arm(1, seed=1)
    assert one.bodies == other.bodies and one.joints["elbow"] != other.joints["elbow"]


def test_links_are_lagranges_and_tops_precess():
    assert articulated.lagrange_difference() < 1e-9
    assert max(articulated.precession_error(which) for which in (0, 1)) < 1e-6


def colored_share(file) -> float:
    """Share of the pixels of an image that are no gray; axes, ticks and words are gray."""
    return (np.ptp(np.asarray(Image.open(file).convert("RGB")).astype(int), axis=-1) > 60).mean()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_finds_two_arms(tmp_path):
    result = articulated.articulated(tmp_path, quick=True)
    figures = {name: f["value"] for name, f in result["figures"].items()}
    assert figures["identified_rel_err"] < 1e-6 and figures["solved"] == 1
    if chain.has_newton():
        assert abs(figures["newton_order"] - 1) < 0.1 and figures["newton_difference"] < 1e-3
    assert result["images"] and all(colored_share(tmp_path / p["file"]) > 5e-4 for p in result["images"])
    assert (tmp_path / "side_by_side.webm").is_file()
