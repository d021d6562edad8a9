"""Second derivatives by every way that PyTorch has, and a small loss through each operation of the library."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import model_cases
import soft_cases
import torch
from torch import Tensor
from torch.autograd import forward_ad, functional
from torch.func import grad, hessian, jacfwd, jacrev, jvp

from gradsim.geometry import mesh
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.physics.model import Model
from gradsim.physics.smoke.solver import Smoke
from gradsim.render import Renderer, look_at
from gradsim.render.silhouettes import Silhouettes
from gradsim.scene import Scene

Loss = Callable[[Tensor], Tensor]


def _first(loss: Loss, x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(x), x, create_graph=True)
    return x, gradient


def grad_of_grad(loss: Loss, x: Tensor) -> Tensor:
    x, gradient = _first(loss, x)
    return torch.autograd.grad(gradient.sum(), x)[0]


def backward_of_grad(loss: Loss, x: Tensor) -> Tensor | None:
    x, gradient = _first(loss, x)
    gradient.sum().backward()
    return x.grad


def backward_twice(loss: Loss, x: Tensor) -> Tensor | None:
    x = x.clone().requires_grad_()
    loss(x).backward(create_graph=True)
    gradient, x.grad = x.grad, None
    assert gradient is not None
    gradient.sum().backward()
    return x.grad


def tangent_of_grad(loss: Loss, x: Tensor) -> Tensor | None:
    with forward_ad.dual_level():
        moving = forward_ad.make_dual(x.clone().requires_grad_(), torch.ones_like(x))
        (gradient,) = torch.autograd.grad(loss(moving), moving)
        return forward_ad.unpack_dual(gradient).tangent


def tangent_of_adjoint(loss: Loss, x: Tensor) -> Tensor | None:
    """Of a gradient whose adjoint alone has a tangent: what it is linear in."""
    x = x.clone().requires_grad_()
    with forward_ad.dual_level():
        one = torch.ones((), dtype=x.dtype)
        (gradient,) = torch.autograd.grad(loss(x), x, forward_ad.make_dual(one, one.clone()))
        return forward_ad.unpack_dual(gradient).tangent


SECOND: dict[str, Callable[[Loss, Tensor], Any]] = {
    "autograd.grad of autograd.grad": grad_of_grad,
    "backward of autograd.grad": backward_of_grad,
    "backward of backward": backward_twice,
    "functional.hessian": lambda loss, x: functional.hessian(loss, x),
    "functional.hessian, vectorized": lambda loss, x: functional.hessian(loss, x, vectorize=True),
    "functional.hessian, forward over reverse": lambda loss, x: functional.hessian(
        loss, x, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
    "functional.hvp": lambda loss, x: functional.hvp(loss, x, torch.ones_like(x))[1],
    "functional.vhp": lambda loss, x: functional.vhp(loss, x, torch.ones_like(x))[1],
    "functional.jvp, reverse over reverse": lambda loss, x: functional.jvp(loss, x, torch.ones_like(x))[1],
    "forward_ad over autograd.grad": tangent_of_grad,
    "forward_ad by the adjoint": tangent_of_adjoint,
    "func.grad of func.grad": lambda loss, x: grad(lambda y: grad(loss)(y).sum())(x),
    "func.hessian": lambda loss, x: hessian(loss)(x),
    "jacrev of jacrev": lambda loss, x: jacrev(jacrev(loss))(x),
    "jacrev of jacfwd": lambda loss, x: jacrev(jacfwd(loss))(x),
    "jacfwd of jacfwd": lambda loss, x: jacfwd(jacfwd(loss))(x),
    "jvp of func.grad": lambda loss, x: jvp(grad(loss), (x,), (torch.ones_like(x),))[1],
    "autograd.grad of func.grad": lambda loss, x: torch.autograd.grad(grad(loss)(x := x.clone().requires_grad_()).sum(), x)[0],
}  # fmt: skip


class Case(NamedTuple):
    loss: Loss
    x: Tensor


def _motion(scene: Scene, name: str, frames: int = 3) -> Case:
    model = Model(scene)

    def loss(value: Tensor) -> Tensor:
        states = model.rollout({name: value}, frames).states
        return torch.stack([y[:, -1].square().sum() for own in states.values() for y in own.values()]).sum()

    return Case(loss, model.values()[name].detach().clone())


def _plume(scheme: str) -> Case:
    smoke = Smoke((5, 4), 0.1, 0.05, boundary="walled", advection=scheme, dtype=torch.float64)
    velocity = torch.randn(1, 2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    density = torch.ones(1, 5, 4, dtype=torch.float64)

    def loss(viscosity: Tensor) -> Tensor:
        return smoke.rollout(velocity, density, viscosity=viscosity, frames=3).velocity.square().sum()

    return Case(loss, torch.tensor([0.02], dtype=torch.float64))


CAMERA = look_at((0.0, -3.0, 0.5), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.5, 12, 10)


def _surface(body, convex: bool, look: Appearance) -> Callable[[Tensor], Surface]:
    points = torch.tensor(body.vertices)
    part = Part("body", slice(0, len(points)), torch.tensor(body.faces), convex, look)
    return lambda scale: Surface((points * scale + 0.01)[None, None], (part,))


def _masks(convex: bool) -> Case:
    body = mesh.sphere(0.4, 1) if convex else mesh.torus(0.35, 0.13, 7, 5)
    at, view = _surface(body, convex, Appearance((0.2, 0.5, 0.8))), Silhouettes(CAMERA)
    return Case(lambda scale: view.masks(at(scale)).square().sum(), torch.ones(1, dtype=torch.float64))


def _image(rasterizer: str, textured: bool = False) -> Case:
    body, look = mesh.sphere(0.4, 1), Appearance((0.2, 0.5, 0.8))
    if textured:
        draw = torch.Generator().manual_seed(0)
        uv, texture = (torch.rand(*shape, generator=draw).double() for shape in ((len(body.vertices), 2), (3, 4, 5)))
        look = Appearance(uv=uv, uv_faces=torch.tensor(body.faces), texture=texture)
    at, renderer = _surface(body, False, look), Renderer(CAMERA, rasterizer, "phong")
    return Case(lambda scale: renderer(at(scale)).square().sum(), torch.ones(1, dtype=torch.float64))


def _opacity(rasterizer: str) -> Case:
    at = _surface(mesh.sphere(0.4, 1), False, Appearance((0.2, 0.5, 0.8)))
    renderer = Renderer(CAMERA, rasterizer)
    return Case(lambda scale: renderer.alpha(at(scale)).square().sum(), torch.ones(1, dtype=torch.float64))


def _linked() -> Scene:
    """Two bars on a hinge."""
    bar = {"shape": {"box": {"size": [0.3, 0.05, 0.04]}}, "mass": 0.8}
    joint = {"kind": "revolute", "between": ["upper", "lower"], "axis": [0, 1, 0], "angle": 0.4, "rate": 2.0}
    joint |= {"parent_point": [0.15, 0, 0], "child_point": [-0.15, 0, 0]}
    timing = {"fps": 50, "frames": 3, "substeps": 4}
    return Scene.parse({"timing": timing, "bodies": {"upper": bar, "lower": bar}, "joints": {"hinge": joint}})


def _held() -> Scene:
    """A soft block that a box holds."""
    block = {"kind": "solid", "shape": {"box": {"size": [0.2, 0.1, 0.1], "cells": [1, 1, 1]}}, "density": 500}
    block |= {"young": 5000, "poisson": 0.3}
    box = {"shape": {"box": {"size": [0.06, 0.08, 0.1]}}, "mass": 0.4, "position": [-0.15, 0, 0]}
    grip = {"body": "block", "to": "box", "region": "-x", "stiffness": 300, "damping": 0.5}
    timing = {"fps": 50, "frames": 3, "substeps": 20}
    bodies = {"block": block | {"velocity": [0, 0, -2]}, "box": box}
    return Scene.parse({"timing": timing, "bodies": bodies, "attachments": {"grip": grip}})


def _implicit() -> Scene:
    content = soft_cases.solid().model_dump(exclude_unset=True)
    return Scene.parse(content | {"timing": {**content["timing"], "integrator": "implicit"}})


def _double_pendulum() -> Scene:
    arms = {"kind": "double_pendulum", "first_angle": 1.1, "second_angle": -0.6}
    arms |= {"first_length": 0.3, "second_length": 0.2, "first_mass": 1.0, "second_mass": 0.8}
    return Scene.parse({"timing": {"fps": 50, "frames": 3, "substeps": 4}, "bodies": {"arms": arms}})


CASES: dict[str, Callable[[], Case]] = {
    "rigid body": lambda: _motion(model_cases.cube(), "cube.mass"),
    "rigid bodies on a joint": lambda: _motion(_linked(), "upper.mass"),
    "pendulum": lambda: _motion(model_cases.pendulum(), "bob.string_length"),
    "double pendulum": lambda: _motion(_double_pendulum(), "arms.first_length"),
    "soft body": lambda: _motion(soft_cases.solid(), "beam.young"),
    "soft body, implicit": lambda: _motion(_implicit(), "beam.young"),
    "soft body and rigid body": lambda: _motion(_held(), "box.mass"),
    "smoke": lambda: _plume("bilinear"),
    "smoke, MacCormack": lambda: _plume("maccormack"),
    "masks": lambda: _masks(convex=False),
    "masks, convex": lambda: _masks(convex=True),
    "aa": lambda: _image("aa"),
    "aa, texture": lambda: _image("aa", textured=True),
    "aa, opacity": lambda: _opacity("aa"),
    "softras": lambda: _image("softras"),
    "softras, texture": lambda: _image("softras", textured=True),
    "softras, opacity": lambda: _opacity("softras"),
    "dibr": lambda: _image("dibr", textured=True),
    "dibr, opacity": lambda: _opacity("dibr"),
}


@cache
def case(name: str) -> Case:
    """The case of `CASES`, made once: kernels and models are slow to make."""
    return CASES[name]()
