"""Verdicts of fits to outlines and the colors inside of them."""

import torch

from gradsim.identification.colors.fit import mask_fault
from gradsim.identification.uncertainty.outline import OutlineErrors


def errors(size: float) -> OutlineErrors:
    return OutlineErrors(torch.eye(2).double(), 0.0, 0.1, size, 0.1, 1.0, 0.0, 0.5)


def test_masks_that_a_texture_cuts_into_are_a_fault():
    assert "0.89 px" in mask_fault(errors(0.89)) and "--mask" in mask_fault(errors(0.89))
    assert mask_fault(errors(0.3)) == "" == mask_fault(None)
