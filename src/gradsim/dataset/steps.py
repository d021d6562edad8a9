"""Steps per frame of a rigid body on a ground, from the stability bound at the worst corner of the ranges.

Where a set T of contact points touches a plane of normal n, a small motion y = (x, θ) of the body obeys

    M ÿ + D ẏ + K y = 0,   K = k_e Σ (Jᵢᵀ n)(Jᵢᵀ n)ᵀ,   D = Σ Jᵢᵀ (k_d n nᵀ + k_f (1 − n nᵀ)) Jᵢ,   Jᵢ = (1, −[rᵢ]×)

by the paper's law. Explicit steps h of it are stable below

    λ(M⁻¹K) h² + 2 λ(M⁻¹D) h = 4

with the largest eigenvalues λ; for n points that only move along a normal, λ is n k_e/m and n k_d/m. It is evaluated over
planes all around the body, each with all points that are in it when the body has sunk in by `SUNK`.
"""

import math

import numpy as np

from gradsim.geometry.mesh import Mesh

PLANES = 128  # normals evenly over the sphere; those of the hull's faces come to them
SUNK = 0.007  # [m] depth at which the lightest body, on one of its points, stops from 3.5 m/s on the stiffest ground
RESOLVED = 0.7  # longest step over the largest stable one


def substeps(
    mesh: Mesh,
    inertia: np.ndarray,
    mass: float,
    stiffness: float,
    damping: float,
    friction_stiffness: float,
    fps: float,
) -> int:
    """Steps per frame, a multiple of 8.

    Args:
        mesh: The body about its centre of mass.
        inertia: About the centre of mass, for a mass of 1 (3, 3) [m²].
        mass: Smallest [kg].
        stiffness: Largest [N/m].
        damping: Largest [N s/m].
        friction_stiffness: Largest [N s/m].
        fps: Frames per second.
    """
    spring, drag = _eigenvalues(mesh, inertia, stiffness, damping, friction_stiffness)
    a, b = spring / mass, 2 * drag / mass
    step = 8 / (b + np.sqrt(b**2 + 16 * a)).max()  # the positive root
    return 8 * math.ceil(1 / (fps * RESOLVED * step) / 8)


def _eigenvalues(mesh: Mesh, inertia: np.ndarray, stiffness: float, damping: float, friction: float) -> tuple:
    """Largest eigenvalues of M⁻¹K and M⁻¹D for a mass of 1, one each for all planes (planes,)."""
    points = mesh.vertices
    normals = np.concatenate([_sphere(PLANES), _normals(mesh)])
    height = points @ normals.T
    touching = (height < height.min(0) + SUNK).T.astype(float)  # (planes, points)
    root = np.linalg.inv(np.linalg.cholesky(inertia))
    cross = np.zeros((len(points), 3, 3))
    cross[:, [2, 0, 1], [1, 2, 0]] = points
    cross[:, [1, 2, 0], [2, 0, 1]] = -points
    J = np.concatenate([np.broadcast_to(np.eye(3), cross.shape), -cross @ root.T], 2)  # in units of √mass
    along = np.einsum("pi,vij->pvj", normals, J)
    K = np.einsum("pv,pvi,pvj->pij", touching, along, along)
    every = np.einsum("pv,vki,vkj->pij", touching, J, J)
    D = damping * K + friction * (every - K)
    return tuple(np.linalg.eigvalsh(x)[:, -1] for x in (stiffness * K, D))


def _normals(mesh: Mesh) -> np.ndarray:
    """Of the faces, into the body (faces, 3); coplanar ones count once."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    n = np.cross(c - a, b - a)
    return np.unique((n / np.linalg.norm(n, axis=1, keepdims=True)).round(9), axis=0)


def _sphere(count: int) -> np.ndarray:
    """Directions evenly over the sphere (count, 3), on a golden spiral."""
    k = np.arange(count) + 0.5
    z, angle = 1 - 2 * k / count, math.pi * (3 - math.sqrt(5)) * k
    rho = np.sqrt(1 - z**2)
    return np.stack([rho * np.cos(angle), rho * np.sin(angle), z], 1)
