"""The scale of density, moduli and damping of a soft body, which gravity alone leaves open (`test_soft_fits.py`)."""

import pytest
import soft_cases
import torch

from gradsim.identification.api import least_squares
from gradsim.identification.fields.api import identify_fields
from gradsim.identification.observation.vertices import Vertices
from gradsim.identification.solvers.multistart import MultistartConfig
from gradsim.physics.model import Model

SCALE = ["beam.density:500:1500", "beam.mu:1000:5000", "beam.lam:1500:6000"]
ALONE = {
    "pushes": None,
    "regions": None,
    "collision": "none",
    "damping": 0.0,
    "young": None,
    "poisson": None,
    "mu": 2000,
    "lam": 3000,
}


def seen(scene) -> Vertices:
    with torch.no_grad():
        return Vertices("beam", Model(scene).rollout()["beam"]["x"][0], 1e-5)


def test_a_known_blow_fixes_the_scale():
    scene = soft_cases.solid(**{**ALONE, "pushes": [{"impulse": [0.2, 0.1, -0.3], "region": "+x"}]})
    fit = least_squares(scene, seen(scene), SCALE, MultistartConfig(starts=2), 1)
    assert fit.status == "ok" and fit.rank == 3
    assert list(fit.values.values()) == pytest.approx([900, 2000, 3000], rel=1e-6)


def test_known_damping_fixes_the_scale_too():
    scene = soft_cases.solid(**{**ALONE, "damping": 3.0})
    fit = least_squares(scene, seen(scene), SCALE, MultistartConfig(starts=2), 1)
    assert fit.status == "ok"
    open_ = least_squares(scene, seen(scene), [*SCALE, "beam.damping:1:6"], MultistartConfig(starts=2), 1)
    assert open_.rank == 3 and "and beam.damping by one common factor" in open_.null_directions[0].explanation


def test_fields_of_masses_and_moduli_leave_one_scale_open():
    scene = soft_cases.solid(**ALONE)
    names = ["beam.vertex_mass_factor", "beam.mu_factor", "beam.lam_factor"]
    fit = identify_fields(scene, names, seen(scene), iterations=2)
    assert "one common factor of all of beam.vertex_mass_factor, beam.mu_factor and beam.lam_factor" in " ".join(
        fit.null_directions
    )
