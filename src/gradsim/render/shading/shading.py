"""Shading laws: color = albedo · diffuse + specular.

With the unit normal n, the unit vectors l to a light of color L and e to the eye,

    diffuse  = k_a Σ ambient + k_d Σ max(0, n · l) L                          (Lambert)
    specular = k_s Σ max(0, r · e)^s L,   r = 2 (n · l) n − l                 (Phong 1975)
    specular = k_s Σ max(0, n · h)^s L,   h = (l + e) / |l + e|               (Blinn 1977)

where n · l > 0. Normals of back faces are flipped. There are no shadows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Appearance
from gradsim.render.shading import lights
from gradsim.render.shading.lights import Ambient, Directional, Harmonics, Light, unit

LAWS = ("colour", "lambert", "phong", "blinn-phong")
LAMPS: tuple[Light, ...] = (Ambient((0.4, 0.4, 0.4)), Directional((-0.5, 0.6, -1.0), (0.6, 0.6, 0.6)))


@dataclass(frozen=True, eq=False)
class Shading:
    """Shading law and lights.

    Args:
        law: "colour" (unlit), "lambert", "phong" or "blinn-phong".
        lights: Lights. Default: an ambient one, and one from above and behind the left shoulder of a viewer who looks
            along +y.
        textures: Use textures; else the plain colors.
        names: Names of the lights, for their parameters (`with_values`).

    Raises:
        InputError: If the law is unknown, or `lights` are not lights.
    """

    law: str = "colour"
    lights: tuple[Light, ...] = LAMPS
    textures: bool = True
    names: tuple[str, ...] = ()

    def __post_init__(self):
        if self.law not in LAWS:
            raise InputError(f"shading law is {self.law!r}; use one of {', '.join(LAWS)}.")
        if not isinstance(self.lights, Sequence) or not all(isinstance(x, Light) for x in self.lights):
            raise InputError(
                f"lights are {self.lights!r}; expected a tuple of lights, such as (Ambient(), Directional(...))."
            )
        object.__setattr__(self, "lights", tuple(self.lights))

    @classmethod
    def paper(cls, variant: str, lights: tuple[Light, ...] = LAMPS) -> "Shading":
        """One of the three variants of the paper's Fig. 7: "colour", "shading", or "texture" (shading and texture).

        Raises:
            InputError: If the variant is unknown.
        """
        variants = {"colour": cls("colour", lights, False), "shading": cls("phong", lights, False)}
        variants["texture"] = cls("phong", lights, True)
        if variant not in variants:
            raise InputError(f"variant is {variant!r}; use one of {', '.join(variants)}.")
        return variants[variant]

    @classmethod
    def of(cls, scene, law: str | None = None, textures: bool = True) -> "Shading":
        """Shading law and lights of a scene.

        Args:
            scene: A `gradsim.Scene`; without lights, `LAMPS` are used.
            law: Shading law in place of the scene's.
            textures: See the class.
        """
        lamps = tuple(lights.from_scene(spec) for spec in scene.lights.values())
        return cls(law or scene.shading, lamps or LAMPS, textures, tuple(scene.lights))

    def with_values(self, values: Mapping[str, Tensor], frames: int) -> "Shading":
        """Replace parameters of lights by name: `lights.NAME.colour`, `.direction`, `.position`.

        Args:
            values: Parameters (worlds or 1, 3) by name; other names are ignored.
            frames: Frames of each world.

        Raises:
            InputError: If a light or its parameter is unknown.
        """
        known = {
            f"lights.{name}.{f.name}" for name, lamp in zip(self.names, self.lights, strict=False) for f in fields(lamp)
        }
        unknown = next((key for key in values if key.startswith("lights.") and key not in known), None)
        if unknown:
            raise InputError(
                f"`values` name `{unknown}`; the parameters of lights are {', '.join(sorted(known)) or 'none'}."
            )
        lamps = list(self.lights)
        for k, name in enumerate(self.names):
            keys = {field.name: f"lights.{name}.{field.name}" for field in fields(lamps[k])}
            replaced = {field: values[key] for field, key in keys.items() if key in values}
            lamps[k] = replace(
                lamps[k], **{f: v.repeat_interleave(frames, 0) if len(v) > 1 else v[0] for f, v in replaced.items()}
            )
        return replace(self, lights=tuple(lamps))

    def light(
        self, points: Tensor, normals: Tensor, eye: Tensor, material: Tensor, image: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Diffuse and specular light, RGB (..., 3) each.

        Args:
            points: Positions (..., 3) [m].
            normals: Unit normals (..., 3), on the side of the eye.
            eye: Position of the camera (..., 3) [m].
            material: k_a, k_d, k_s and s (..., 4), see `material_of`.
            image: Index of the image (...), for lights that differ between worlds.
        """
        if self.law == "colour":
            return torch.ones_like(points), torch.zeros_like(points)
        k_a, k_d, k_s, exponent = material[..., None].unbind(-2)
        diffuse, specular = torch.zeros_like(points), torch.zeros_like(points)
        to_eye = unit(eye - points)
        for lamp in (lights.of_image(lamp, image) for lamp in self.lights):
            if isinstance(lamp, Ambient | Harmonics):
                diffuse = diffuse + k_a * lamp.around(normals)
                continue
            to_light, colour = lamp.arriving(points)
            slant = _dot(normals, to_light)
            diffuse = diffuse + k_d * slant.clamp_min(0.0) * colour
            if self.law != "lambert":
                mirrored = 2 * slant * normals - to_light
                half = unit(to_light + to_eye)
                sharp = _dot(mirrored, to_eye) if self.law == "phong" else _dot(normals, half)
                lit = (slant > 0) & (sharp > 0)
                specular = specular + k_s * torch.where(lit, _power(sharp, lit, exponent), 0.0) * colour
        return diffuse, specular


def material_of(appearance: Appearance, like: Tensor) -> Tensor:
    """k_a, k_d, k_s and s of an appearance (4,); tensors keep their gradients."""
    return torch.stack(
        [
            torch.as_tensor(x, dtype=like.dtype, device=like.device)
            for x in (appearance.ambient, appearance.diffuse, appearance.specular, appearance.shininess)
        ]
    )


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1, keepdim=True)


def _power(base: Tensor, where: Tensor, exponent: Tensor) -> Tensor:
    return torch.where(where, base, 1.0) ** exponent
