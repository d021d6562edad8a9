"""No operation has second derivatives: each way to ask for them is an error, and none is silently part of them."""

import pytest
import torch
from derivative_cases import CASES, SECOND, case

SLOW = ("rigid bodies on a joint", "soft body, implicit", "soft body and rigid body")  # to compile
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CASES]
REFUSED = (
    "is differentiable once: there are no second derivatives|has no forward-mode derivative|do not pass through here|"
    "torch.func.* saved tensor hooks"  # PyTorch's checkpoints, which smoke has
)


@pytest.mark.parametrize("way", SECOND)
@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_raise(name, way):
    loss, x = case(name)
    with pytest.raises(RuntimeError, match=REFUSED):
        SECOND[way](loss, x)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev], ids=["grad", "jacrev"])
@pytest.mark.parametrize("name", NAMES)
def test_transforms_of_first_order_are_those_of_autograd_or_raise(name, transform):
    loss, x = case(name)
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(loss(leaf), leaf)
    assert wanted.any()
    try:
        found = transform(loss)(x)
    except RuntimeError as error:
        assert "torch.func" in str(error)
        assert name.startswith(("smoke", "aa", "dibr", "masks, convex"))
    else:
        assert torch.allclose(found, wanted, rtol=1e-10)
