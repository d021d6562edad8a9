"""Training on a soft beam: goals are reached, resumed and borne with real physics."""

import pytest
import torch
from plant_cases import inputs, swinging

from gradsim.control.goals.state import StateGoal
from gradsim.control.observations import StateObservation
from gradsim.control.policies import Feedback, PiecewiseConstant, Sinusoids, Spline
from gradsim.control.training.randomization import DomainRandomization
from gradsim.control.training.settings import TrainingConfig
from gradsim.control.training.train import train

POLICIES = {
    "sinusoids": lambda plant: Sinusoids(plant.outputs, frequency=20.0),
    "spline": lambda plant: Spline(plant.outputs, 4, 0.1),
    "free": lambda plant: PiecewiseConstant(plant.outputs, plant.intervals, 0.12, bounded=True),
    "feedback": lambda plant: Feedback(inputs(plant), plant.outputs, (6,)),
}


def goal(plant) -> StateGoal:
    """Where another actuation leads."""
    u = torch.rand(3, plant.outputs, dtype=torch.float64, generator=torch.manual_seed(2)) * 2 - 1
    with torch.no_grad():
        return StateGoal("beam", plant.rollout(PiecewiseConstant(plant.outputs, 3, 0.12, u)).centre()[0, -1])


@pytest.mark.parametrize("kind", POLICIES)
def test_every_policy_reaches_what_another_actuation_reaches(kind):
    plant = swinging(observation=lambda model: StateObservation(model, 3))
    policy = POLICIES[kind](plant)
    history = train(plant, policy, goal(plant), TrainingConfig("polyak", 1.5, 8))
    assert min(history.raw("distance")) < 0.1 * history.raw("distance")[0]
    assert history.raw("position_error") == pytest.approx(history.raw())  # the same formula, for one centre
    assert history.raw("steps") == [100] * 8 and history.raw("rollouts") == [1] * 8


@pytest.mark.slow
def test_worlds_of_other_masses_are_trained_together_and_resume_to_the_same_bits(tmp_path):
    def run(iterations, path=None):
        plant = swinging(observation=lambda model: StateObservation(model, 3))
        policy = Feedback(inputs(plant), plant.outputs, (6,), seed=1)
        noise = DomainRandomization(plant.model, {"beam.density": 0.2}, worlds=3, seed=5)
        return train(plant, policy, goal(plant), TrainingConfig("adam", 0.03, iterations), None, path, noise), policy

    whole, policy = run(5)
    run(2, tmp_path / "search.pt")
    again, other = run(5, tmp_path / "search.pt")
    assert again.raw() == whole.raw() and again.raw("gradient_norm") == whole.raw("gradient_norm")
    assert all(torch.equal(a, b) for a, b in zip(policy.parameters(), other.parameters(), strict=True))
    assert whole.raw("rollouts") == [3] * 5 and len(set(whole.raw())) == 5
