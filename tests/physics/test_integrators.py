"""Names of integrators: those of scenes are those of the records."""

from typing import get_args

from gradsim.physics import integrators
from gradsim.scene import scene


def test_scenes_and_records_have_the_same_names():
    assert set(scene.RIGID_INTEGRATORS) == set(integrators.RIGID)
    assert set(scene.SOFT_INTEGRATORS) == set(integrators.SOFT)
    named = get_args(scene.Timing.model_fields["integrator"].annotation)
    assert set(named) == {"auto", *integrators.RIGID, *integrators.SOFT}


def test_a_soft_integrator_has_kernels_or_a_theta():
    assert all((one.kernels is None) != (one.theta is None) for one in integrators.SOFT.values())
