"""Mitsuba as an operation of PyTorch: one frame from its tensors, with gradients by projective sampling.

Gradients include the motion of edges of bodies and shadows (Zhang, Roussel & Jakob, "Projective sampling for
differentiable rendering of geometry", SIGGRAPH Asia 2023). They leave out edges between flat-shaded facets,
where colors jump as well: make such bodies smooth. Vertices have no gradient where a texture has seams, which
Mitsuba treats as edges.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Part
from gradsim.render.camera import Camera
from gradsim.render.mitsuba.scene import describe, sensor

PROBE = """
import mitsuba as mi
mi.set_variant({variant!r})
import drjit as dr
scene = mi.load_dict(mi.cornell_box() | {{"integrator": {{"type": "direct_projective"}}}})
params = mi.traverse(scene)
dr.enable_grad(params["red.reflectance.value"])
dr.backward(dr.sum(mi.render(scene, params, spp=1), axis=None))
assert dr.all(dr.isfinite(dr.grad(params["red.reflectance.value"])))[0]
"""


@contextmanager
def variant_set(variant: str) -> Iterator[Any]:
    """The module `mitsuba` with this variant and without its warnings; both are put back.

    Raises:
        InputError: If Mitsuba is not installed, or has no such variant.
    """
    try:
        import mitsuba as mi
    except ImportError as error:
        raise InputError(f'Mitsuba cannot be imported ({error}); pip install "gradsim[mitsuba]".') from None
    if variant not in mi.variants():
        raise InputError(f"Mitsuba has no variant {variant!r}; it has {', '.join(mi.variants())}.")
    before = mi.variant()
    mi.set_variant(variant)
    level = mi.log_level()
    mi.set_log_level(mi.LogLevel.Error)
    try:
        yield mi
    finally:
        mi.set_log_level(level)
        if before and before != variant:
            mi.set_variant(before)


@cache
def check(variant: str) -> None:
    """Try a variant that compiles in another process: with a compiler that is too old, Dr.Jit ends the process.

    Raises:
        InputError: If it does not work here.
    """
    with variant_set(variant):
        pass
    program = [sys.executable, "-c", PROBE.format(variant=variant)]
    tried = subprocess.run(program, check=False, capture_output=True, text=True)
    if tried.returncode:
        last = (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[0]
        raise InputError(
            f"Mitsuba's variant {variant} does not work here ({last[:120]}). llvm_ad_rgb needs a newer library of LLVM "
            "than 16 (on Debian: libllvm19), which DRJIT_LIBLLVM_PATH may name; cuda_ad_rgb needs a GPU and OptiX. Without "
            "gradients, scalar_rgb works everywhere."
        )


def differentiates(variant: str) -> bool:
    """True if a variant has gradients."""
    return "_ad_" in variant


class Frame:
    """Program (see `engine.operation`) from the seed of the samples () and tensors to RGB (height, width, 3).

    Args:
        names: Names of the tensors after the seed, see `scene.py`.
        moving: Names of tensors that get gradients.
        parts: Parts of the surface.
        camera: The camera.
        law: Law of highlights.
        spp: Samples per pixel.
        depth: Longest light path in segments; 2 is direct light.
        variant: Variant of Mitsuba.
        sky: Show the environment light behind the bodies.
    """

    def __init__(
        self,
        names: Sequence[str],
        moving: Sequence[str],
        parts: Sequence[Part],
        camera: Camera,
        law: str,
        spp: int,
        depth: int,
        variant: str,
        sky: bool,
    ):
        self.names, self.moving, self.parts, self.camera = tuple(names), tuple(moving), tuple(parts), camera
        self.law, self.spp, self.depth, self.variant, self.sky = law, spp, depth, variant, sky

    def shapes(self, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(self.camera.height, self.camera.width, 3)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        with variant_set(self.variant) as mi:
            scene = self._scene(mi, inputs)
            image = mi.render(scene, spp=self.spp, seed=int(inputs[0]))
            return [_tensor(image).to(inputs[0])]

    def backward(
        self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], adjoints: Sequence[Tensor]
    ) -> list[Tensor | None]:
        with variant_set(self.variant) as mi:
            import drjit as dr

            scene = self._scene(mi, inputs)
            parameters = mi.traverse(scene)
            watched = {}
            for name in self.moving:
                watched[name] = type(parameters[name])(parameters[name])
                dr.enable_grad(watched[name])
                parameters[name] = watched[name]
            parameters.update()
            image = mi.render(scene, parameters, spp=self.spp, seed=int(inputs[0]), seed_grad=int(inputs[0]) + 1)
            weight = mi.TensorXf(adjoints[0].detach().cpu().float().numpy())
            dr.backward(dr.sum(image * weight, axis=None))
            grads = {name: _tensor(dr.grad(x)) for name, x in watched.items()}
        pairs = zip(("seed", *self.names), inputs, strict=True)
        return [_shaped(grads[name], x) if name in grads else None for name, x in pairs]

    def _scene(self, mi, inputs: Sequence[Tensor]):
        content = describe(mi, self.parts, dict(zip(self.names, inputs[1:], strict=True)), self.law)
        content["sensor"] = sensor(mi, self.camera, self.spp, False, True)
        kind = "direct_projective" if self.depth <= 2 else "prb_projective"
        content["integrator"] = {"type": kind, "hide_emitters": not self.sky}
        if self.depth > 2:
            content["integrator"]["max_depth"] = self.depth
        return mi.load_dict({"type": "scene", **content})


def _tensor(x: Any) -> Tensor:
    import numpy as np

    return torch.tensor(np.array(x))


def _shaped(gradient: Tensor, like: Tensor) -> Tensor:
    """A gradient in the shape of what it belongs to."""
    beyond = gradient.shape[1] - like.shape[1] if gradient.ndim == like.ndim == 3 else 0
    if beyond:  # an environment map: the image has an extra column on the right, in newer versions also on the left
        columns = (torch.arange(gradient.shape[1]) - beyond // 2) % like.shape[1]
        gradient = gradient.new_zeros(like.shape).index_add(1, columns, gradient[..., :3])
    return gradient.reshape(like.shape).to(like)
