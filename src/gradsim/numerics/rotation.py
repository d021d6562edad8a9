"""Rotations as unit quaternions (x, y, z, w): batched, and smooth at the identity.

With q = (u, w) and a rotation vector θ [rad]:

    x' = x + 2 u × (u × x + w x)
    exp(θ) = (sin(|θ|/2) θ/|θ|, cos(|θ|/2))
"""

import torch
from torch import Tensor
from torch.autograd import forward_ad

_SERIES_LIMIT = 1e-3  # [rad²] |θ|² below which series replace sin(x)/x: their next term is below 1e-16 there


def _is_transformed() -> bool:
    """True if tensors may have tangents, be wrapped by `torch.func`, be traced by the compiler, which knows neither, or calls be recorded."""
    compiled = torch.compiler.is_compiling()
    transformed = forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()
    return compiled or transformed or torch._C._is_torch_function_mode_enabled()


def cross(a: Tensor, b: Tensor) -> Tensor:
    """a × b, (..., 3); shapes broadcast.

    `torch.linalg.cross` has no native forward derivative: PyTorch composes one at each call, in 0.3 ms. Nor does it round as this
    does, and a value has to be the same with a tangent and without.
    """
    a, b = torch.broadcast_tensors(a, b)
    return a.roll(-1, -1) * b.roll(1, -1) - a.roll(1, -1) * b.roll(-1, -1)


def multiply(p: Tensor, q: Tensor) -> Tensor:
    """Hamilton product p q, the rotation q followed by p; shapes (..., 4) broadcast."""
    p, q = torch.broadcast_tensors(p, q)
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    vector = a * v + b * u + cross(u, v)
    return torch.cat([vector, a * b - (u * v).sum(-1, keepdim=True)], -1)


def conjugate(q: Tensor) -> Tensor:
    """Inverse of a unit quaternion (..., 4)."""
    return torch.cat([-q[..., :3], q[..., 3:]], -1)


def rotate(q: Tensor, x: Tensor) -> Tensor:
    """Rotate vectors (..., 3) by unit quaternions (..., 4); shapes broadcast."""
    u, w = q[..., :3], q[..., 3:]
    u, x = torch.broadcast_tensors(u, x)
    return x + 2 * cross(u, cross(u, x) + w * x)


def apply_turned(q: Tensor, matrix: Tensor, x: Tensor) -> Tensor:
    """R M Rᵀ x: a matrix M (..., 3, 3) in the axes of a body that is turned by q (..., 4), on a vector (..., 3) of the world's."""
    local = rotate(conjugate(q), x)
    return rotate(q, (matrix @ local[..., None])[..., 0])


def to_matrix(q: Tensor) -> Tensor:
    """Rotation matrices (..., 3, 3) of unit quaternions (..., 4)."""
    columns = torch.eye(3, dtype=q.dtype, device=q.device)
    return torch.stack([rotate(q, column) for column in columns], -1)


def from_matrix(R: Tensor) -> Tensor:
    """Unit quaternions (..., 4) with w ≥ 0 of rotation matrices (..., 3, 3)."""
    m = lambda i, j: R[..., i, j]
    trace = m(0, 0) + m(1, 1) + m(2, 2)
    candidates = torch.stack(  # 4 q_i q, for each i; the one of the largest |q_i| has no cancellation
        [
            torch.stack([1 + 2 * m(0, 0) - trace, m(0, 1) + m(1, 0), m(0, 2) + m(2, 0), m(2, 1) - m(1, 2)], -1),
            torch.stack([m(0, 1) + m(1, 0), 1 + 2 * m(1, 1) - trace, m(1, 2) + m(2, 1), m(0, 2) - m(2, 0)], -1),
            torch.stack([m(0, 2) + m(2, 0), m(1, 2) + m(2, 1), 1 + 2 * m(2, 2) - trace, m(1, 0) - m(0, 1)], -1),
            torch.stack([m(2, 1) - m(1, 2), m(0, 2) - m(2, 0), m(1, 0) - m(0, 1), 1 + trace], -1),
        ],
        -2,
    )
    best = candidates.diagonal(dim1=-2, dim2=-1).argmax(-1)
    q = candidates.gather(-2, best[..., None, None].expand(*best.shape, 1, 4))[..., 0, :]
    q = q / torch.linalg.vector_norm(q, dim=-1, keepdim=True)
    return torch.where(q[..., 3:] < 0, -q, q)


def from_axis_angle(axis: Tensor, angle: Tensor) -> Tensor:
    """Quaternions (..., 4) of a rotation by `angle` (...) [rad] about `axis` (..., 3) of any length."""
    axis = axis / torch.linalg.vector_norm(axis, dim=-1, keepdim=True)
    return exponential(axis * angle[..., None])


def exponential(theta: Tensor) -> Tensor:
    """Exponential map: quaternions (..., 4) of rotation vectors (..., 3) [rad]; smooth at 0."""
    squared = theta.square().sum(-1, keepdim=True)
    small = squared < _SERIES_LIMIT
    if theta.device.type == "cpu" and not _is_transformed() and small.all():  # as of most bodies at the start
        sinc, cosine = _series(squared / 4)
        return torch.cat([sinc * theta, cosine], -1)
    safe = torch.where(small, 1.0, squared)
    angle = safe.sqrt()
    sinc, cosine = _series(squared / 4)
    sinc = torch.where(small, sinc, (angle / 2).sin() / angle)
    cosine = torch.where(small, cosine, (angle / 2).cos())
    return torch.cat([sinc * theta, cosine], -1)


def _series(y: Tensor) -> tuple[Tensor, Tensor]:
    """sin(√y)/(2 √y) and cos(√y) near 0."""
    sinc = 0.5 * (1 - y / 6 * (1 - y / 20 * (1 - y / 42 * (1 - y / 72))))
    return sinc, 1 - y / 2 * (1 - y / 12 * (1 - y / 30 * (1 - y / 56)))


def left_jacobian(theta: Tensor) -> Tensor:
    """J (..., 3, 3) of rotation vectors (..., 3) [rad]: exp(θ + dθ) = exp(J dθ) exp(θ) to first order; smooth at 0.

    J = 1 + (1 − cos θ)/θ² [θ]× + (θ − sin θ)/θ³ [θ]×²                          (Chirikjian 2012, eq. 10.86)
    """
    squared = theta.square().sum(-1)[..., None, None]
    small = squared < _SERIES_LIMIT
    safe = torch.where(small, 1.0, squared)
    angle = safe.sqrt()
    first = torch.where(small, 0.5 - squared / 24 + squared**2 / 720, (1 - angle.cos()) / safe)
    second = torch.where(small, 1 / 6 - squared / 120 + squared**2 / 5040, (angle - angle.sin()) / (safe * angle))
    eye = torch.eye(3, dtype=theta.dtype, device=theta.device)
    across = cross(theta[..., None, :], eye).mT  # columns θ × e_k
    return eye + first * across + second * across @ across


def logarithm(q: Tensor) -> Tensor:
    """Logarithm map: rotation vectors (..., 3) [rad], of length at most π, of unit quaternions (..., 4)."""
    q = torch.where(q[..., 3:] < 0, -q, q)
    u, w = q[..., :3], q[..., 3:]
    squared = u.square().sum(-1, keepdim=True)
    small = squared < _SERIES_LIMIT / 4
    s = torch.where(small, 1.0, squared).sqrt()
    # atan(t)/t with t = |u|/w, by its series near 0
    t = squared / torch.where(small, w, torch.ones_like(w)) ** 2
    series = 2 / w.clamp(min=0.5) * (1 - t * (1 / 3 - t * (1 / 5 - t * (1 / 7 - t * (1 / 9 - t / 11)))))
    return torch.where(small, series, 2 * torch.atan2(s, w) / s) * u
