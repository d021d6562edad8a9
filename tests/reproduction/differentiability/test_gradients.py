"""The audit of gradients, on few of its scenes."""

import numpy as np
import pytest
import torch

from gradsim_reproduction.differentiability import gradients as audit
from gradsim_reproduction.rigid import contact_scenes as contact


@pytest.mark.parametrize("law", contact.LAWS)
def test_adjoint_is_the_forward_sensitivity(law):
    scenes = contact.draw("box", law, 4, np.random.default_rng(0))
    assert (
        contact.touches_ground(scenes, scenes.model(), audit.LANDED).sum() >= 3
    )  # a push upwards may keep one in the air
    assert audit.adjoint_against_forward(scenes, np.random.default_rng(1)).max() < 1e-9


@pytest.mark.parametrize("law", contact.LAWS)
def test_narrow_secants_are_the_tangent(law):
    """Over ± 1e-6 most worlds cross no kink, and the difference is of second order and rounding, 1e-16/1e-6."""
    rng = np.random.default_rng(0)
    scenes = contact.draw("box", law, 8, rng)
    difference = audit.tangent_against_secants(scenes, contact.directions(scenes, rng), 1)
    assert difference.shape == (8, len(audit.WIDTHS))
    assert difference[:, 0].median() < (1e-4 if law == "continuous" else 1e-2)


def test_bodies_start_just_above_the_ground():
    """2 to 15 cm below the lowest point of the mesh, in any orientation."""
    scenes = contact.draw("cone", "continuous", 6, np.random.default_rng(3))
    with torch.no_grad():
        lowest = scenes.model().rollout(scenes.values, 1).surface.vertices[:, 0, :, 2].amin(1)
    assert lowest.min() >= 0.02 and lowest.max() <= 0.15


@pytest.mark.slow
def test_quick_run_meets_its_goals(tmp_path):
    result = audit.gradients(tmp_path, quick=True)
    assert result["figures"]["adjoint_vs_forward_worst"]["ok"]
    assert all((tmp_path / p["file"]).is_file() for p in result["images"])
