"""Contacts recomputed in plain PyTorch, against the momentum that the kernels gave the body."""

import pytest
import soft_cases
import torch
from tolerances import SOLVED, assert_near

from gradsim.identification.sensitivity.tangents import by_step
from gradsim.physics.contact_events import contact_forces, force_tangents, touches
from gradsim.physics.model import Model
from gradsim.scene import Scene

pytestmark = pytest.mark.usefixtures("unoptimized_kernels")

LAWS = {
    "continuous": {"dissipation": 0.4},
    "constant-restitution": {"damping": 40},
    "paper": {"damping": 40},
    "paper-adhesive": {"damping": 40},
}


def tumbling(law: str, obstacles: bool = False) -> Model:
    """A box that slides and turns over on a soft ground, and on a ball and a box; a frame for every step."""
    box = {"shape": {"box": {"size": [0.3, 0.24, 0.18]}}, "mass": 2.0, "position": [0, 0, 0.2]}
    box |= {"velocity": [0.7, 0.2, -1], "rotation_vector": [0.3, 0.4, 0.1], "angular_velocity": [1, 2, -1]}
    ground = {"law": law, "stiffness": 4000, "friction_stiffness": 40, "friction": 0.3, **LAWS[law]}
    timing = {"fps": 50, "frames": 26, "substeps": 20, "integrator": "semi-implicit"}  # forces are those of whole steps
    solid = {key: value for key, value in ground.items() if key != "friction"}
    solids = {
        "post": {"radius": 0.1, "position": [0.25, 0.05, 0.02], **solid},
        "step": {"size": [0.2, 0.3, 0.1], "position": [-0.1, -0.1, 0.0], "rotation_vector": [0.2, 0, 0.4], **solid},
    }
    content = {"timing": timing, "bodies": {"cube": box}, "ground": ground}
    return by_step(Model(Scene.parse({**content, "obstacles": solids if obstacles else {}})))


@pytest.mark.parametrize(("law", "obstacles"), [*((law, False) for law in LAWS), ("continuous", True)])
def test_forces_are_the_change_of_momentum(law, obstacles):
    """m (v' − v)/h = m g + Σ f in every step of semi-implicit Euler; rounding: 1e-16 of m v/h = 3e3 N."""
    model = tumbling(law, obstacles)
    values = {name: v.detach() for name, v in model.values().items()}
    trajectory = model.rollout_unchecked(values, 500)
    cube = trajectory["cube"]
    given = 2.0 * (cube["v"].diff(dim=1)[0] / model.dt - values["gravity"])
    forces = contact_forces(model.systems[0], cube, values)
    found = touches(model.systems[0], cube, values)
    assert (forces.sum((1, 2, 3))[:-1] - given).abs().max() < 1e-9
    assert found.inside.any(2).any(0).all() and found.sliding.any() and (found.inside & ~found.sliding).any()
    assert torch.equal(found.any, forces.abs().sum((1, 2, 3, 4)).ne(0) | found.inside.flatten(1).any(1))


@pytest.mark.parametrize("law", ["continuous", "paper"])
def test_tangents_of_the_forces_are_the_change_of_the_momentums_tangent(law):
    """The same equation differentiated by ln k_e, the gravity and the mass being fixed."""
    model = tumbling(law)
    values = {name: v.detach() for name, v in model.values().items()}
    along = {"ground.stiffness": values["ground.stiffness"]}
    own, moving = model.tangent(values, along, 500)
    _, change = force_tangents(model.systems[0], own["cube"], moving["cube"], values, along)
    given = 2.0 * moving["cube"]["v"].diff(dim=1)[0] / model.dt
    assert given.abs().max() > 1
    assert (change.sum((1, 2, 3))[:-1] - given).abs().max() < 1e-9 * given.abs().max()


@pytest.mark.parametrize("law", LAWS)
def test_forces_on_a_soft_body_are_the_change_of_its_momentum(law):
    """Σ m (v' − v)/h = M g + Σ f in every step: forces inside the body cancel."""
    free = soft_cases.net(pinned=[], anchors=[], velocity=[0.5, 0.2, -2.5])
    content = free.model_dump(exclude_unset=True)
    content["timing"] |= {"integrator": "semi-implicit"}  # the forces of a step are those at its start
    for node in (*content["grounds"].values(), *content["obstacles"].values()):
        node.pop("dissipation", None)
        node |= {"law": law, **({"dissipation": 0.5} if law == "continuous" else {"damping": 0.5})}
    model = by_step(Model(Scene.parse(content)))
    values = {name: v.detach() for name, v in model.values().items()}
    with torch.no_grad():
        states = model.rollout(frames=101)["net"]
    (system,) = model.systems
    mass = system.mass(values)[0]
    momentum = (mass[:, None] * states["v"][0]).sum(1)
    total = (momentum[1:] - momentum[:-1]) / model.dt - mass.sum() * values["gravity"][0]
    found = contact_forces(system, states, values)[:-1]
    assert_near(found.sum((1, 2, 3)), total, SOLVED, scale=1.0)
    pressed = touches(system, states, values)
    assert pressed.grounds == ["ground", "post"] and pressed.inside.any(0).any(1).all()
