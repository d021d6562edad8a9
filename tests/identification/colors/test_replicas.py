"""Errors that a codec leaves."""

import torch

from gradsim.identification.colors.replicas import covariance_of_bias


def test_a_bias_is_an_error_of_its_size_in_every_direction_that_colors_decide():
    """In units of K^(−1/2) it is 2² + 2²/2 = 6 along b, 2²/2 = 2 in the other direction of colors, and nothing in those of outlines."""
    information, prior = (
        torch.diag(torch.tensor([100.0, 4.0, 0, 0])).double(),
        torch.diag(torch.tensor([0, 0, 1.0, 0.25])).double(),
    )
    K = information + prior
    bias = torch.tensor([0.0, 1.0, 0.0, 0.0]).double()
    whitened = K.sqrt() @ covariance_of_bias(bias, information, prior) @ K.sqrt()
    torch.testing.assert_close(whitened, torch.diag(torch.tensor([2.0, 6.0, 0.0, 0.0]).double()))


def test_no_bias_is_no_error():
    assert not covariance_of_bias(torch.zeros(3).double(), torch.eye(3).double(), torch.eye(3).double()).any()
