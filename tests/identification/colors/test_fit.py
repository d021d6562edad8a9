"""Verdicts of fits to outlines and the colors inside of them."""

from types import SimpleNamespace

import torch

from gradsim.identification.colors.fit import lowered, mask_fault
from gradsim.identification.uncertainty.outline import OutlineErrors


def errors(size: float) -> OutlineErrors:
    return OutlineErrors(torch.eye(2).double(), 0.0, 0.1, size, 0.1, 1.0, 0.0, 0.5)


def test_masks_that_a_texture_cuts_into_are_a_fault():
    assert "0.89 px" in mask_fault(errors(0.89)) and "--mask" in mask_fault(errors(0.89))
    assert mask_fault(errors(0.3)) == "" == mask_fault(None)


def test_a_step_is_taken_as_far_as_it_lowers_the_cost():
    """A cost (u − 1)² from u = 0: steps to 1, 3 and 4 are taken whole, to a half and to a quarter, and one to −1 not at all."""
    space = SimpleNamespace(low=torch.tensor([-9.0]), high=torch.tensor([9.0]))
    problem = SimpleNamespace(cost=lambda u, frames: (u - 1).square().sum(-1), space=space)
    ends = [lowered(problem, torch.tensor([0.0]), torch.tensor([step]), 3).item() for step in (-1.0, -3.0, -4.0, 1.0)]
    assert ends == [1.0, 1.5, 1.0, 0.0]
