"""Path tracing by Mitsuba 3: shadows, indirect light, and a reference for our own renderer.

Needs the extra `mitsuba`. `scene.py` lists which appearances and lights have an exact counterpart. Colors are linear, as
everywhere in gradsim, and written without gamma.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from gradsim.engine.operation import may_be_differentiated, operation
from gradsim.errors import InputError
from gradsim.geometry.surface import Surface
from gradsim.render.camera import Camera, from_scene
from gradsim.render.mitsuba.frame import Frame, check, differentiates, variant_set
from gradsim.render.mitsuba.scene import describe, light_tensors, mesh_tensors, sensor
from gradsim.render.shading.shading import Shading

LAMBERT = Shading("lambert")
PLAIN_APPEARANCE: dict[str, Any] = {"color": (0.0, 0.0, 0.0), "vertex_colors": None, "texture": None, "specular": 0.0}
SEED_STRIDE = 2**16  # between seeds; a frame takes two numbers, one for its gradient


@dataclass(frozen=True, eq=False)
class Mitsuba:
    """Renders surfaces by path tracing; unbiased, noisy and slow.

    Colors are means of `spp` random samples per pixel. Variants with gradients (`llvm_ad_rgb`, `cuda_ad_rgb`) are
    differentiable by vertices, textures and uv, vertex colors and light colors, with two limits (`frame.py`); not by the
    camera, nor by positions and directions of lights.

    Args:
        camera: The camera, with square pixels and no skew.
        shading: Lights, law of highlights, and textures; `colour` is lit as `lambert`.
        background: RGB; emits no light.
        spp: Samples per pixel; rounded up to a grid.
        depth: Longest light path in segments: 2 is direct light with shadows, more adds indirect light.
        variant: Variant of Mitsuba. None: `scalar_rgb`, which works everywhere and has no gradients.
        seed: Seed of the samples; every frame has its own.

    Raises:
        InputError: If Mitsuba is not installed, its variant does not work here, or the camera has no equal there.
    """

    camera: Camera
    shading: Shading = LAMBERT
    background: Sequence[float] = (1.0, 1.0, 1.0)
    spp: int = 64
    depth: int = 4
    variant: str | None = None
    seed: int = 0

    def __post_init__(self):
        if self.spp < 1 or self.depth < 2:
            raise InputError(f"spp {self.spp} and depth {self.depth}; a pixel needs a sample, and a path two legs.")
        if self.camera.K.requires_grad or self.camera.R.requires_grad or self.camera.t.requires_grad:
            raise InputError("Mitsuba's images have no gradient by the camera; detach its K, R and t.")
        if differentiates(self._variant):
            check(self._variant)
        with variant_set(self._variant) as mi:
            sensor(mi, self.camera, self.spp, True, False)

    @classmethod
    def of(cls, scene, camera: str = "camera", **options: Any) -> "Mitsuba":
        """Make a renderer with the camera, lights and background of a scene; `options` are those of the class.

        Raises:
            InputError: If the scene has no camera of this name.
        """
        options = {"shading": Shading.of(scene), "background": tuple(scene.background)} | options
        return cls(from_scene(scene.view(camera)), **options)

    def __call__(self, surface: Surface) -> Tensor:
        """Linear RGB (worlds, frames, 3, height, width), at least 0; highlights may exceed 1.

        Args:
            surface: Vertices (worlds, frames, n, 3) [m], with appearance.

        Raises:
            InputError: If an input requires a gradient that the variant or Mitsuba does not provide.
        """
        return _stacked(surface, self.frames(surface))

    def frames(self, surface: Surface) -> Iterator[Tensor]:
        """Render frame by frame (3, height, width), world by world."""
        surface = self._textured(surface)
        for k, (world, frame) in enumerate(_places(surface)):
            tensors = mesh_tensors(surface, world, frame, self.shading.law)
            tensors |= light_tensors(self.shading.lights, surface, world, frame)
            if may_be_differentiated(*tensors.values()):
                rgb = self._operated(surface, tensors, k)
                if any(self.background):
                    rgb = rgb + (1 - self._alpha(surface, world, frame, k)) * rgb.new_tensor(self.background)
            else:
                rgba = self._plain(surface, tensors, {"type": "path", "max_depth": self.depth}, k)
                rgb = rgba[..., :3] + (1 - rgba[..., 3:]) * rgba.new_tensor(self.background)
            yield rgb.movedim(-1, 0)

    def alpha(self, surface: Surface) -> Tensor:
        """Opacity (worlds, frames, height, width): the share of the samples that hit something; see `__call__`."""
        images = (self._alpha(surface, w, f, k)[None, ..., 0] for k, (w, f) in enumerate(_places(surface)))
        return _stacked(surface, images)[:, :, 0]

    @property
    def _variant(self) -> str:
        return self.variant or "scalar_rgb"

    def _textured(self, surface: Surface) -> Surface:
        if self.shading.textures:
            return surface
        return Surface(
            surface.vertices, tuple(replace(p, appearance=replace(p.appearance, texture=None)) for p in surface.parts)
        )

    def _alpha(self, surface: Surface, world: int, frame: int, k: int) -> Tensor:
        """(height, width, 1): black bodies before a white sky, the other way round."""
        black = _plain(surface)
        tensors = mesh_tensors(black, world, frame, self.shading.law)
        if may_be_differentiated(surface.vertices):
            tensors["sky.radiance.value"] = surface.vertices.new_ones(3)
            return 1 - self._operated(surface, tensors, k, alone=True)[..., :1]
        return self._plain(black, tensors, {"type": "depth"}, k)[..., 3:]

    def _plain(self, surface: Surface, tensors: dict[str, Tensor], integrator: dict[str, Any], k: int) -> Tensor:
        """RGBA (height, width, 4) without gradients."""
        import numpy as np

        with variant_set(self._variant) as mi, torch.no_grad():
            content = describe(mi, surface.parts, tensors, self.shading.law)
            content["sensor"] = sensor(mi, self.camera, self.spp, True, False)
            content["integrator"] = {"hide_emitters": True} | integrator
            image = np.array(
                mi.render(mi.load_dict({"type": "scene", **content}), seed=self.seed * SEED_STRIDE + 2 * k)
            )
        return torch.tensor(image).to(surface.vertices)

    def _operated(self, surface: Surface, tensors: dict[str, Tensor], k: int, alone: bool = False) -> Tensor:
        """RGB (height, width, 3) with gradients; `alone`: black bodies and the sky that is among the tensors."""
        if not differentiates(self._variant):
            raise InputError(
                f"Mitsuba's variant {self._variant} has no gradients; choose llvm_ad_rgb or cuda_ad_rgb, or render "
                "under torch.no_grad()."
            )
        moving = tuple(name for name, x in tensors.items() if x.requires_grad)
        fixed = [name for name in moving if name.endswith((".to_world", ".position"))]
        if fixed:
            raise InputError(f"Mitsuba's images have no gradient by {', '.join(fixed)}; detach it.")
        for number, part in enumerate(surface.parts):
            positions = f"part{number}.vertex_positions"
            if positions in moving and len(tensors[positions]) > part.vertices.stop - part.vertices.start:
                raise InputError(
                    f"the texture of `{part.name}` has seams, which Mitsuba's gradients by vertices take for edges; leave "
                    "textures out (`Shading(textures=False)`), or detach the vertices."
                )
        drawn_surface = _plain(surface) if alone else surface
        depth, law = (2, "lambert") if alone else (self.depth, self.shading.law)
        frame = Frame(
            tuple(tensors), moving, drawn_surface.parts, self.camera, law, self.spp, depth, self._variant, alone
        )
        seed = surface.vertices.new_tensor(float(self.seed * SEED_STRIDE + 2 * k))
        return operation(frame)(seed, *tensors.values())[0]


def _plain(surface: Surface) -> Surface:
    """The surface in black."""
    return Surface(
        surface.vertices, tuple(replace(p, appearance=replace(p.appearance, **PLAIN_APPEARANCE)) for p in surface.parts)
    )


def _places(surface: Surface) -> Iterator[tuple[int, int]]:
    """World and frame of each image."""
    worlds, frames = surface.vertices.shape[:2]
    return product(range(worlds), range(frames))


def _stacked(surface: Surface, images: Iterator[Tensor]) -> Tensor:
    return torch.stack(list(images)).unflatten(0, tuple(surface.vertices.shape[:2]))
