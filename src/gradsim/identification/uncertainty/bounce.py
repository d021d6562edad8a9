"""Share of the speed that a bounce leaves, from the numbers of a contact law that were estimated.

Users ask for the coefficient of restitution e; a law has a damping, which goes with the stiffness and the mass that the scene
states, and e is what a video shows of the three (`scene.restitution`). The standard deviation is that of e to first order.
"""

import math

import torch
from torch import Tensor

from gradsim.identification.problem import Problem
from gradsim.scene.restitution import of_damping

LAW = "constant-restitution"  # of the others e depends on the speed, or the ground attracts
STEP = 0.1  # of a standard deviation, of the differences: the integral of e is good to some 1e-7


def restitution(problem: Problem, u: Tensor, covariance: Tensor) -> dict[str, dict]:
    """Coefficient of restitution by surface: its `value` and `std`; none but of a law of which it is a constant.

    Args:
        problem: Of one clip; its scene has one rigid body.
        u: The answer in solver coordinates (unknowns,).
        covariance: Of the unknowns (unknowns, unknowns).
    """
    scene, names, answers = problem.model.scene, problem.space.names, {}
    bodies = [(name, body) for name, body in scene.bodies.items() if hasattr(body, "mass")]
    if len(scene.bodies) != 1 or len(bodies) != 1:
        return {}
    (body, node), std = bodies[0], covariance.diagonal().clamp(min=0).sqrt()
    for surface, law in scene.surfaces.items():
        stated = {f"{surface}.damping": law.damping, f"{surface}.stiffness": law.stiffness, f"{body}.mass": node.mass}
        if law.law != LAW or not set(stated) & set(names):
            continue

        def share(u: Tensor, stated=stated) -> float:
            numbers = stated | dict(zip(names, problem.space.numbers(u).tolist(), strict=True))
            damping, stiffness, mass = (numbers[name] for name in stated)
            return of_damping(damping, stiffness, mass, LAW)

        shifts = torch.diag(STEP * std)
        slope = torch.tensor([share(u + shift) - share(u - shift) for shift in shifts]) / (2 * STEP * std).clamp(
            min=1e-300
        )
        answers[surface] = {"value": share(u), "std": math.sqrt(max(0.0, (slope @ covariance @ slope).item()))}
    return answers
