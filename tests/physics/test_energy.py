"""Steps that make energy are named, with the number that is needed; motion that is supplied with energy is not."""

from types import SimpleNamespace

import numpy as np
import pytest
import soft_cases
import torch

from gradsim.app.commands.simulate import simulate
from gradsim.identification.problem import Effort
from gradsim.identification.scene_models import model_for
from gradsim.identification.unknowns import Space
from gradsim.identification.verdict import _notes
from gradsim.physics.energy import energy_increases
from gradsim.physics.model import Model
from gradsim.scene import Scene, restitution

DAMPED = [  # ground and height of a drop that 75 Euler steps a frame send up to 16 m and more
    ({"restitution": 0.05, "impact_speed": 0.3}, 0.4),
    ({"dissipation": 30, "stiffness": 1e5}, 1.1),
    ({"restitution": 0.1, "impact_speed": 1.0}, 5.1),
]


def drop(ground: dict, height: float, substeps: int | str = 75, **body) -> Scene:
    box = {"shape": {"box": {"size": [0.2, 0.2, 0.2]}}, "mass": 1.0, "position": [0, 0, height], **body}
    timing = {"fps": 30, "frames": 40, "substeps": substeps, "integrator": "semi-implicit"}
    return Scene.parse({"gravity": 9.81, "bodies": {"b": box}, "ground": ground, "timing": timing})


def rises(scene: Scene):
    model = Model(scene)
    return energy_increases(model, model.rollout())


@pytest.mark.parametrize(("ground", "height"), DAMPED)
def test_fixed_steps_that_make_energy_are_named_with_those_it_takes(ground, height):
    (found,) = rises(drop(ground, height))
    assert found.bodies == ("b",) and 0.9 < found.rise <= 1 and found.needed > 1000
    assert "`b` has gained energy" in found.words
    assert f"Set timing.substeps to {found.needed} or more, or to auto." in found.words
    assert rises(drop(ground, height, found.needed)) == []


def test_what_random_fixed_steps_make_is_named():
    """120 random drops at 40 Euler steps: named are those whose box moves faster, or higher, than it can."""
    rng, made, named = np.random.default_rng(3), 0, 0
    for _ in range(120):
        loss = restitution.dissipation(10 ** rng.uniform(-2, -0.5), 10 ** rng.uniform(-1.5, 0.5))
        ground = {"stiffness": 10 ** rng.uniform(2.5, 4), "dissipation": loss, "friction": rng.uniform(0, 1)}
        height, speed = rng.uniform(0.3, 3), rng.uniform(0, 5)
        model = Model(drop(ground, height, 40, velocity=[0, 0, -speed], rotation_vector=rng.normal(size=3).tolist()))
        trajectory = model.rollout()
        state = {k: y[0].detach() for k, y in trajectory["b"].items()}
        spin = model.systems[0].spin(state["q"][None], state["l"][None], model.values())[0].detach()
        energy = 9.81 * state["x"][:, 2] + 0.5 * state["v"].square().sum(1) + 0.5 * (spin * state["l"]).sum(1)
        rose = bool(energy.max() - energy[0] > 2e-3 * energy.max())
        said = bool(energy_increases(model, trajectory))
        assert said or not rose
        made, named = made + rose, named + said
    assert 5 < made <= named < 60 and named - made < 3


def test_a_slender_stick_that_euler_steps_spin_up_is_named_by_its_integrator():
    body = {"shape": {"box": {"size": [0.05, 0.05, 0.5]}}, "mass": 1, "angular_velocity": [1.0, 6.0, 9.0]}
    timing = {"fps": 30, "frames": 60, "integrator": "semi-implicit"}
    scene = {"gravity": 0, "bodies": {"stick": body}, "timing": timing}
    (found,) = rises(Scene.parse(scene))
    assert "Set timing.integrator to auto, or timing.substeps to more than" in found.words
    assert rises(Scene.parse({**scene, "timing": {**timing, "integrator": "auto"}})) == []


@pytest.mark.parametrize(
    "pushes", [[{"impulse": [3, 0, 5], "point": [0.1, 0, 0]}], [{"impulse": [0, 0, -5], "at": 0.25}]]
)
def test_pushes_are_no_energy_that_steps_make(pushes):
    assert rises(drop({"stiffness": 1e3}, 0.5, pushes=pushes)) == []


def test_what_a_motor_gives_is_no_energy_that_steps_make():
    hinge = {"kind": "revolute", "between": ["world", "b"], "axis": [0, 1, 0], "child_point": [0, 0, 0.2]}
    scene = {"bodies": {"b": {"shape": {"box": {"size": [0.1, 0.1, 0.4]}}, "mass": 1}}, "timing": {"frames": 20}}
    hanging = lambda **numbers: Scene.parse({**scene, "gravity": 9.81, "joints": {"hinge": {**hinge, **numbers}}})
    assert rises(hanging(torque=3.0)) == [] and rises(hanging(angle=1.0)) == []
    model = Model(hanging(torque=3.0))
    x = model.rollout()["b"]["x"][0, :, 2]
    assert x.max() - x[0] > 0.05  # it does rise


def test_a_body_that_starts_inside_a_ground_may_have_what_that_stored():
    """It springs up: four corners store ½ k δ² each."""
    scene = drop({"stiffness": 2e5, "dissipation": 0.1}, 0.1 - 1e-4, "auto")
    timing = scene.timing.model_copy(update={"integrator": "rk4"})
    assert rises(scene.model_copy(update={"timing": timing})) == []


@pytest.mark.parametrize("kind", ["solid", "cloth", "net"])
def test_soft_bodies_whose_shape_at_rest_is_the_start_keep_to_their_energy(kind):
    """A jump at a frame is seen; an anchor or an actuation hides it, since these may give energy."""
    still = {"anchors": [], "rest_length_factor": 1.0} if kind == "net" else {"activation": 0.0}
    still |= (
        {"anchors": [], "bending": None, "bending_damping": None, "bending_activation": None, "air": None}
        if kind == "cloth"
        else {}
    )
    for changes, seen in ((still, 1), ({}, 0)):
        model = Model(getattr(soft_cases, kind)(**changes))
        trajectory = model.rollout()
        assert energy_increases(model, trajectory) == []
        (states,) = trajectory.states.values()
        states["v"] = torch.cat([states["v"][:, :3], 3 * states["v"][:, 3:]], 1)
        assert len(energy_increases(model, trajectory)) == (seen if kind != "solid" or changes else 0)


def test_simulate_says_so(tmp_path):
    scene = drop(*DAMPED[1])
    scene.save(tmp_path / "scene.yaml")
    result = simulate(tmp_path / "scene.yaml", tmp_path / "out")
    assert len(result["notes"]) == 1 and "`b` has gained energy" in result["notes"][0]


@pytest.mark.parametrize(("substeps", "count"), [(75, 1), ("auto", 0)])
def test_a_fit_says_so_of_its_answer(substeps, count):
    (ground, height), *_ = DAMPED
    scene = drop(ground, height, substeps)
    space = Space(scene, ["b.mass:0.5:2"])
    model = model_for(scene, space)
    trajectory = lambda u: model.rollout_unchecked(model.values(space.values(u[None])), 40)
    problem = SimpleNamespace(model=model, space=space, frames=40, trajectory=trajectory)
    problem.problems, problem.effort = [problem], Effort()
    notes = _notes(problem, space.inner(torch.ones(1, 1).double())[0])  # pyright: ignore[reportArgumentType]
    assert sum("`b` has gained energy" in note for note in notes) == count
