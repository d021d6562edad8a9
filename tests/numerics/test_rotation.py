"""Quaternions against the matrix exponential, and smooth where formulas have 0/0."""

import math

import pytest
import torch
from tolerances import ULPS, assert_near

from gradsim.numerics import rotation


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64)


def double(*values):
    return torch.tensor(values, dtype=torch.float64)


def cross_matrix(v):
    """[v]× (..., 3, 3), so that [v]× u = v × u."""
    eye = torch.eye(3, dtype=v.dtype)
    return torch.stack([torch.linalg.cross(v, column.expand_as(v)) for column in eye], -1)


def rotation_vectors():
    """Generic ones, and all sizes from 0 to just below π."""
    v = draw(40, 3)
    sizes = torch.cat([double(0), torch.logspace(-12, math.log10(3.14), 39).double()])
    return torch.cat([v / v.norm(dim=-1, keepdim=True) * sizes[:, None], draw(20, 3)])


def same(actual, expected, atol=1e-14):
    torch.testing.assert_close(actual, expected, rtol=0, atol=atol)


def test_exponential_is_that_of_the_cross_product_matrix():
    v = rotation_vectors()
    same(rotation.to_matrix(rotation.exponential(v)), torch.matrix_exp(cross_matrix(v)), 1e-13)


def test_exponential_has_length_one():
    same(rotation.exponential(rotation_vectors()).norm(dim=-1), torch.ones(60).double(), 1e-15)


def test_logarithm_undoes_the_exponential_below_half_a_turn():
    v = rotation_vectors()
    v = v[v.norm(dim=-1) < math.pi]
    same(rotation.logarithm(rotation.exponential(v)), v, 1e-14)
    small = v[(v.norm(dim=-1) > 0) & (v.norm(dim=-1) < 0.1)]
    assert_near(rotation.logarithm(rotation.exponential(small)), small, ULPS)


def test_logarithm_takes_the_short_way_round():
    axis = double(0, 0.6, 0.8)
    long_way = rotation.from_axis_angle(axis, double(1.5 * math.pi)[0])
    same(rotation.logarithm(long_way), -0.5 * math.pi * axis)
    same(rotation.logarithm(-long_way), -0.5 * math.pi * axis)


def test_half_a_turn_has_a_logarithm():
    same(rotation.logarithm(double(0.6, 0.8, 0, 0)), math.pi * double(0.6, 0.8, 0))


@pytest.mark.parametrize("size", [0.0, 1e-9, 1e-3, 0.031, 0.032, 1.0, 3.0])
def test_exponential_and_logarithm_have_first_and_second_derivatives_at_every_angle(size):
    v = (size * double(0.48, -0.6, 0.64)).requires_grad_()
    for function in (rotation.exponential, lambda v: rotation.logarithm(rotation.exponential(v))):
        torch.autograd.gradcheck(function, v, eps=1e-5)
        torch.autograd.gradgradcheck(function, v, eps=1e-5)
    forward, backward = (mode(rotation.exponential)(v.detach()) for mode in (torch.func.jacfwd, torch.func.jacrev))
    same(forward, backward)


def test_small_rotations_turn_by_the_cross_product():
    same(torch.func.jacrev(rotation.exponential)(torch.zeros(3).double()), torch.eye(4, 3).double() / 2)
    u = draw(3)
    moved = lambda v: rotation.rotate(rotation.exponential(v), u)
    same(torch.func.jacrev(moved)(torch.zeros(3).double()), -cross_matrix(u))


def test_product_of_quaternions_is_the_product_of_matrices():
    p, q = rotation.exponential(draw(5, 1, 3)), rotation.exponential(draw(4, 3))
    product = rotation.multiply(p, q)
    assert product.shape == (5, 4, 4)
    same(rotation.to_matrix(product), rotation.to_matrix(p) @ rotation.to_matrix(q))


def test_conjugate_turns_back():
    q, v = rotation.exponential(draw(7, 3)), draw(7, 3)
    same(rotation.rotate(rotation.conjugate(q), rotation.rotate(q, v)), v)
    same(rotation.multiply(q, rotation.conjugate(q)), double(0, 0, 0, 1).expand(7, 4))


def test_rotate_is_the_matrix_applied_and_broadcasts_both_ways():
    q, v = rotation.exponential(draw(2, 6, 1, 3)), draw(2, 1, 8, 3)
    turned = rotation.rotate(q, v)
    assert turned.shape == (2, 6, 8, 3)
    same(turned, (rotation.to_matrix(q) @ v[..., None])[..., 0])


@pytest.mark.parametrize("axis", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 1), (0.1, 0.2, -0.97)])
@pytest.mark.parametrize("angle", [0.0, 1e-8, 1.0, 2.5, math.pi - 1e-9, math.pi])
def test_from_matrix_undoes_to_matrix_at_half_turns_too(axis, angle):
    q = rotation.from_axis_angle(double(*axis), double(angle)[0])
    back = rotation.from_matrix(rotation.to_matrix(q))
    assert back[3] >= 0
    same(torch.minimum((back - q).abs(), (back + q).abs()), torch.zeros(4).double(), 1e-15)


def test_from_matrix_has_derivatives():
    v = torch.cat([draw(3, 3), torch.zeros(1, 3).double(), 3.1 * torch.eye(3).double()]).requires_grad_()
    function = lambda v: rotation.from_matrix(torch.matrix_exp(cross_matrix(v)))
    torch.autograd.gradcheck(function, v)
    same(function(v), rotation.exponential(v), 1e-14)


def test_from_axis_angle_takes_axes_of_any_length():
    axis, angle = draw(5, 3), draw(5)
    expected = rotation.exponential(axis / axis.norm(dim=-1, keepdim=True) * angle[:, None])
    same(rotation.from_axis_angle(1e3 * axis, angle), expected)


def test_single_precision_stays_single_and_finite():
    v = torch.tensor([[0.0, 0, 0], [1e-20, 0, 0], [0.5, 1, -1]], requires_grad=True)
    back = rotation.logarithm(rotation.exponential(v))
    assert back.dtype == torch.float32
    torch.testing.assert_close(back, v, rtol=1e-6, atol=1e-7)
    (slope,) = torch.autograd.grad(back.sum(), v)
    torch.testing.assert_close(slope, torch.ones(3, 3), rtol=0, atol=1e-5)


def test_left_jacobian_is_the_derivative_of_the_exponential_at_every_angle():
    for size in (0.0, 1e-4, 0.02, 0.05, 1.0, 3.0):
        v = size * torch.tensor([0.6, -0.48, 0.64], dtype=torch.float64)
        R = rotation.to_matrix(rotation.exponential(v))
        change = torch.func.jacfwd(lambda v: rotation.to_matrix(rotation.exponential(v)))(v)  # (3, 3, 3)
        J = rotation.left_jacobian(v)
        for k in range(3):
            same(change[..., k] @ R.mT, cross_matrix(J[:, k][None])[0], 1e-12)


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0])
def test_a_value_is_the_same_bit_for_bit_with_a_tangent_and_without(size):
    generator = torch.Generator().manual_seed(0)
    theta, x = (torch.randn(5, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    turned = lambda theta: rotation.rotate(rotation.exponential(theta), x)
    value, _ = torch.func.jvp(turned, (size * theta,), (x,))
    assert torch.equal(value, turned(size * theta))
