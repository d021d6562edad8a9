"""Approximate Gauss–Newton matrix of images for many unknowns, by optical flow.

    dI(p) = S(p) · du(p),    du(p) = (K dx − u dz)/z,    dx = R Σ_k b_k(p) dX_k          (dX_k of the corners of p's triangle)

S is the derivative of the image I by a uniform shift, b are barycentric coordinates in space. The color of a textured
point is constant, so this is the exact derivative inside of a triangle under uniform light; at edges, where several
surfaces share a pixel, and under other light it is approximate. It costs four images for any number of unknowns. With the
exact gradient, from the adjoint of the renderer, Gauss–Newton converges to the same solution.
"""

from dataclasses import replace

import torch
from torch import Tensor

from gradsim.geometry.surface import Surface
from gradsim.identification.observation.base import Sensitivity
from gradsim.numerics.robust import RobustLoss
from gradsim.physics.trajectory import Trajectory
from gradsim.render.antialias.passes import add_touched
from gradsim.render.camera import Camera
from gradsim.render.raster.fragments import Fragments
from gradsim.render.raster.zbuffer import nearest
from gradsim.render.renderer import Renderer
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.view import View

SHIFT = 1e-5  # [px]: of central differences


def central_difference(behind: Tensor, center: Tensor, ahead: Tensor, step: Tensor | float) -> Tensor:
    """Central differences; one-sided where a pixel changes to another triangle within the step."""
    left, right = (center - behind) / step, (ahead - center) / step
    jumps = (right - left).abs() > 0.5 * (right.abs() + left.abs())
    return torch.where(jumps, torch.where(right.abs() < left.abs(), right, left), 0.5 * (left + right))


def supports_flow(renderer: Renderer, s: Sensitivity) -> bool:
    """True if only bodies depend on the unknowns, not the camera, lights or obstacles."""
    scenery = [thing.name for thing in s.trajectory.scenery]
    still = (renderer.lens, "lights", "camera", *scenery)
    return not any(name.split(".")[0] in still or name.startswith(renderer.lens) for name in s.direction)


def normal(
    renderer: Renderer, s: Sensitivity, video: Tensor, sigma: float, loss: RobustLoss, first: int, last: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Σ λ ρ(r) (worlds,), Jᵀ W r (worlds, unknowns), exact, and Jᵀ W J (worlds, unknowns, unknowns), by the flow.

    Args:
        renderer: Renderer of the images.
        s: Sensitivity of the whole clip.
        video: Observed frames `first` to `last - 1` (frames, 3, height, width).
        sigma: Noise of the video.
        loss: Robust loss of the residuals.
        first: First frame.
        last: Frame after the last.
    """
    worlds, n = len(s.trajectory.values["gravity"]) // s.unknowns, s.unknowns
    values = s.worlds
    moving = s.trajectory.surface_tangent(s.tangent, s.direction)[1][:, first:last]
    moving = s.by_world(moving)  # (worlds, unknowns, frames, bodies' vertices, 3)
    body_vertices = moving.shape[3]
    surface = _scene_surface(s, first, last)
    with torch.enable_grad():
        vertices = surface.vertices.detach().requires_grad_()
        r = (renderer(Surface(vertices, surface.parts), values) - video) / sigma
        residuals = r.detach()
        adjoint = torch.autograd.grad(r, vertices, loss.scale * loss.weight(residuals) * residuals)[0][
            :, :, :body_vertices
        ]
    cost = loss.scale * loss.rho(residuals).flatten(1).sum(1)
    gradient = torch.einsum("wufni,wfni->wu", moving, adjoint)
    slopes = _shifted(renderer, surface, values) * (loss.scale * loss.weight(residuals)).sqrt()[..., None] / sigma
    A = gradient.new_zeros(worlds, n, n)
    for world in range(worlds):
        one = {name: v[world : world + 1] for name, v in values.items()}
        flow, owner = _flow(renderer, Surface(surface.vertices[world : world + 1], surface.parts), one, moving[world])
        frame, column, row = owner[:, 0].long(), owner[:, 2].long(), owner[:, 3].long()
        J = torch.einsum("pci,pui->pcu", slopes[world][frame, :, row, column], flow).flatten(0, 1)
        A[world] = J.mT @ J
    return cost, gradient, A


def _scene_surface(s: Sensitivity, first: int, last: int) -> Surface:
    """Rendered surface of the worlds, without repetition."""
    at = s.trajectory
    states = {b: {k: y[:: s.unknowns, first:last] for k, y in state.items()} for b, state in at.states.items()}
    return Trajectory(at.times[first:last], states, s.worlds, at.systems, at.scenery).scene_surface


def _shifted(renderer: Renderer, surface: Surface, values) -> Tensor:
    """Derivatives of images by uniform shifts to the right and down, (worlds, frames, 3, height, width, 2)."""
    image = renderer(surface, values)
    slopes, still = [], {name: v for name, v in values.items() if name != f"{renderer.lens}.centre"}
    centre = values.get(f"{renderer.lens}.centre")
    for axis in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[axis] = SHIFT
        ends = []
        for sign in (1.0, -1.0):
            K = renderer.camera.K.clone().double()
            K[:2, 2] += sign * step
            shifted = still if centre is None else {**still, f"{renderer.lens}.centre": centre + sign * step}
            camera = Camera(K, renderer.camera.R, renderer.camera.t, renderer.camera.width, renderer.camera.height)
            ends.append(replace(renderer, camera=camera)(surface, shifted))
        slopes.append(central_difference(ends[1], image, ends[0], SHIFT))
    return torch.stack(slopes, -1)


def _flow(renderer: Renderer, surface: Surface, values, moving: Tensor) -> tuple[Tensor, Tensor]:
    """Screen velocities of the fragments (P, unknowns, 2) and their owners (P, 4), of one world."""
    camera = Silhouettes(renderer.camera, lens=renderer.lens)
    view = View.of(surface, camera, values, 1, renderer.near)
    key = nearest(view)
    add_touched(view, key, (torch.ones_like(view.clip[:, 0, 0])[:, None, None]).expand(key.shape).contiguous(), "none")
    fragments = Fragments.of(view, key)
    corners = view.faces.long()[fragments.face]  # (P, 3)
    inside = (corners < moving.shape[2]).all(1)  # scenery stands still
    corners = torch.where(inside[:, None], corners, 0)
    b, z = fragments.place[:, :3] * inside[:, None], fragments.place[:, 3]
    K, R, _ = camera.matrices(surface.vertices, values)
    project = K[0] @ R[0]
    velocity = moving.permute(1, 2, 0, 3)[fragments.image[:, None], corners]  # (P, 3, unknowns, 3)
    projected = torch.einsum("pk,pkui,ji->puj", b, velocity, project)
    place = fragments.owner[:, 2:4].to(z) + 0.5
    return (projected[..., :2] - place[:, None] * projected[..., 2:]) / z[:, None, None], fragments.owner
