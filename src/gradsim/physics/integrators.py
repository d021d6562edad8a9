"""Integrators by name, one record for each kind of matter: its kernels, and what else depends on it.

A name of `timing.integrator` in a scene is in `RIGID_INTEGRATORS` or `SOFT_INTEGRATORS` of `scene/scene.py`, and here.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradsim.physics.rigid import (
        multibody_rk4_kernels,
        multibody_semi_implicit_kernels,
        rk4_kernels,
        semi_implicit_kernels,
    )
    from gradsim.physics.soft import kernels, nystrom_kernels, verlet_kernels
else:
    multibody_rk4_kernels = "gradsim.physics.rigid.multibody_rk4_kernels"
    multibody_semi_implicit_kernels = "gradsim.physics.rigid.multibody_semi_implicit_kernels"
    rk4_kernels = "gradsim.physics.rigid.rk4_kernels"
    semi_implicit_kernels = "gradsim.physics.rigid.semi_implicit_kernels"
    kernels = "gradsim.physics.soft.kernels"
    nystrom_kernels = "gradsim.physics.soft.nystrom_kernels"
    verlet_kernels = "gradsim.physics.soft.verlet_kernels"


@dataclass(frozen=True)
class RigidIntegrator:
    """Integrator of rigid bodies.

    Attributes:
        kernels: Template of the steps of one body: `advance`, `advance_adjoint` and `all_step_powers`.
        multibody_kernels: The same of bodies that touch or are joined.
        order: Of the method. Of first order, free spin is off at any step, and joints are stabilized by the step.
        stability: Largest stable step over that of semi-implicit Euler, where all is damping.
        stages: Evaluations of the forces in a step of several bodies whose states are stored; 0 where there is one.
        powers: Functions of `kernels` that the adjoint of `multibody_kernels` calls.
        events: Whether steps can end at touch and release, and be merged in free flight.
    """

    kernels: str | ModuleType
    multibody_kernels: str | ModuleType
    order: int
    stability: float = 1.0
    stages: int = 0
    powers: tuple[str, ...] = ()
    events: bool = False


RIGID: dict[str, RigidIntegrator] = {
    "semi-implicit": RigidIntegrator(semi_implicit_kernels, multibody_semi_implicit_kernels, 1),
    "rk4": RigidIntegrator(
        rk4_kernels,
        multibody_rk4_kernels,
        4,
        2.785 / 2,  # where nothing is damped 2.83 / 2
        4,
        ("rates_power", "normalized_power", "paired", "all_step_powers"),
        events=True,
    ),
}


@dataclass(frozen=True)
class SoftIntegrator:
    """Integrator of soft bodies.

    Attributes:
        kernels: Template of the rollout by explicit steps; None of implicit ones, see `soft/implicit.py`.
        theta: θ of implicit steps, which are stable at any size: 1 of Euler's, 1/2 of the midpoint rule.
        stability: Factors of k and c in the bound h² k/m + 2 h c/m < 4 of explicit Euler steps.
        proposal: The same of a proposed step, if they differ.
        states: States from step to step; those of a frame are x and v.
        further: Evaluations of the forces in a frame interval in addition to one for each step.
        stages: Stages of a step whose accelerations are stored; 0 where there is one.
        drive_shares: Where in a step vertices that follow a recording are put in place, in shares of it.
        parts: Names of `soft/kernels.py` that `kernels` leaves open.
        adjoint_parts: Those that its adjoint leaves open.
    """

    kernels: str | ModuleType | None = None
    theta: float | None = None
    stability: tuple[float, float] = (1.0, 1.0)
    proposal: tuple[float, float] | None = None
    states: tuple[str, ...] = ("x", "v")
    further: int = 0
    stages: int = 0
    drive_shares: tuple[float, ...] = (1.0,)
    parts: tuple[str, ...] = ()
    adjoint_parts: tuple[str, ...] = ()


_VERTICES, _VERTICES_ADJOINT = ("VertexParameters", "constant"), ("copy_vertices", "add_vertices")
SOFT: dict[str, SoftIntegrator] = {
    "semi-implicit": SoftIntegrator(kernels),
    "verlet": SoftIntegrator(
        verlet_kernels,
        stability=(1.0, 2.0),  # extrapolates the velocity
        proposal=(1.0, 1.25),  # half of a step is within h c/m < 1, by a fifth
        states=("x", "v", "a"),
        further=1,
        parts=_VERTICES,
        adjoint_parts=_VERTICES_ADJOINT,
    ),
    "nystrom": SoftIntegrator(
        nystrom_kernels,
        # h² k/m < 6.66 undamped, h c/m < 2.51 of damping alone, and no less than the line between
        stability=(0.6, 0.8),
        stages=3,
        drive_shares=(0.0, 0.5, 1.0),
        parts=("States", *_VERTICES),
        adjoint_parts=(*_VERTICES_ADJOINT, "Adjoint", "copy_state"),
    ),
    "implicit": SoftIntegrator(theta=1.0),
    "midpoint": SoftIntegrator(theta=0.5),
}
