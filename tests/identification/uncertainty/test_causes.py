"""Causes of a mismatch, planted in scenes of a ball that other code moves and draws."""

import numpy as np
import pytest
from wavy_ball import NAMES, centres, masks, scene, waves

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification.observation.base import Masks
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

TRUTH = (1.0, 4.0, -9.81)
FRAMES = 24
SPEEDS = NAMES[:2]


def fitted(edit, names=SPEEDS, drag=0.0) -> gs.Fit:
    """Fit of the right video by a scene with an edit."""
    displacement = 0.3 + 0.2 * waves(FRAMES, 5.0, 0.5, np.random.default_rng([17, 3]))
    seen = masks(centres(FRAMES, TRUTH, drag), displacement)
    content = scene(FRAMES).model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
    edit(content)
    wrong = Scene.parse(content)
    observed = Masks(seen.masks, seen.sigma, Silhouettes.of(wrong))
    observed.outline_noise = True
    return gs.identify(wrong, names, observation=observed, starts=2, seed=0)


@pytest.mark.parametrize(
    ("edit", "drag", "name", "change"),
    [
        (
            lambda c: c["timing"].update(fps=30 * 1.03),
            0.0,
            "timing.rate",
            0.03,
        ),  # frames are taken to be closer than they are
        (lambda c: None, 0.8, "gravity.x", -0.6),  # drag of 0.8/s on 1 m/s that falls to a half
    ],
)
def test_a_planted_fault_is_among_the_causes_with_its_size(edit, drag, name, change):
    """One linear step from outlines that are off by up to 2 px tells a change to a quarter or so."""
    fit = fitted(edit, NAMES if drag else SPEEDS, drag)
    causes = {cause["name"]: cause for cause in fit.outline["causes"]}
    assert fit.status == Status.MISMATCH and name in causes
    assert causes[name]["change"] == pytest.approx(change, rel=0.3)
    assert causes[name]["size"] < 0.85 * fit.outline["size"]
    assert f"`{name}` by" in fit.residual_diagnostics.words and fit.residual_diagnostics.words == fit.outline["words"]


@pytest.mark.slow  # `test_outline.py` asserts it of a right scene with three unknowns
def test_a_right_scene_has_no_causes():
    fit = fitted(lambda content: None)
    assert fit.status == Status.OK and fit.outline["causes"] == []
