"""One frame of a surface as a Mitsuba scene: dictionaries for `mitsuba.load_dict`, made of tensors by name.

Colors are linear. With albedo ρ, a light of color c and the angle θ to it, our Lambertian surface has color ρ c cos θ, and
that of Mitsuba ρ/π times the irradiance, so that

    directional   irradiance π c            point   intensity π c (1 m)²            ambient, harmonics   radiance c

and direct light on a convex body is that of `shading.py`. Path tracing adds shadows, indirect light and ambient occlusion.
Three things have no exact counterpart:

* A point light without falloff gets the inverse-square one, with its color at the middle of the surface.
* `Appearance.ambient` is ignored: ambient light is scattered as all other (`Appearance.diffuse`).
* Highlights are those of a rough mirror (Beckmann) of the same width and, at normal incidence, the same height:
  α² = 2/(s + 2) and a share F = 4 α² k_s of the light for Blinn–Phong, 4 s in place of s for Phong. The diffuse part
  gets what is left, which is ρ k_d up to 1 − F.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gradsim.errors import InputError
from gradsim.geometry.surface import Appearance, Part, Surface
from gradsim.render.adapters import to_mitsuba
from gradsim.render.camera import Camera
from gradsim.render.shading.lights import Ambient, Directional, Harmonics, Light, Point, harmonics, unit

SKY = (32, 64)  # height and width of the environment map of harmonics, which vary slowly at order 2
MIRROR = 0.95  # largest share of light in highlights

Tensors = dict[str, Tensor]


def corners(part: Part) -> tuple[Tensor, Tensor, Tensor | None]:
    """Vertices of Mitsuba's mesh, which has one uv each: ours by index (k,), faces (m, 3), rows of `uv` (k,) or None."""
    pattern = part.appearance.pattern
    if pattern is None:
        count = part.vertices.stop - part.vertices.start
        return torch.arange(count, device=part.faces.device), part.faces, None
    both = torch.stack([part.faces, pattern.faces], -1).reshape(-1, 2)
    kinds, rows = torch.unique(both, dim=0, return_inverse=True)
    return kinds[:, 0], rows.reshape(-1, 3), kinds[:, 1]


def mesh_tensors(surface: Surface, world: int, frame: int, law: str) -> Tensors:
    """Differentiable inputs of every part: positions, normals if smooth, uv, and the diffuse color."""
    tensors = {}
    for k, part in enumerate(surface.parts):
        look, vertices = part.appearance, surface.vertices[world, frame, part.vertices]
        which, _, rows = corners(part)
        tensors[f"part{k}.vertex_positions"] = vertices[which]
        if look.smooth:
            tensors[f"part{k}.vertex_normals"] = _normals(vertices, part.faces)[which]
        matt = look.diffuse / (1 - mirror(look, law)[0])
        if look.pattern is not None:
            tensors[f"part{k}.vertex_texcoords"] = look.pattern.uv[rows] * vertices.new_tensor(
                [1, -1]
            ) + vertices.new_tensor([0, 1])
            colour = look.pattern.texture.permute(1, 2, 0)
        else:
            colour = torch.as_tensor(look.color) if look.vertex_colors is None else look.vertex_colors
        tensors[f"part{k}.{_color_name(look, law)}"] = (colour.to(vertices) * matt).clamp(0, 1)
    return tensors


def light_tensors(lights: Sequence[Light], surface: Surface, world: int, frame: int) -> Tensors:
    """Differentiable inputs of every light; ambient light and harmonics are `sky`."""
    like = surface.vertices
    tensors, around = {}, [light for light in lights if isinstance(light, Ambient | Harmonics)]
    for k, light in enumerate(lights):
        if isinstance(light, Directional):
            tensors[f"light{k}.to_world"] = _towards(unit(torch.as_tensor(light.direction).to(like)))
            tensors[f"light{k}.irradiance.value"] = math.pi * torch.as_tensor(light.colour).to(like)
        elif isinstance(light, Point):
            position = torch.as_tensor(light.position).to(like)
            square = (position.detach() - like.detach()[world, frame].mean(0)).square().sum()
            scale = square if light.falloff == "none" else 1.0
            tensors[f"light{k}.position"] = position
            tensors[f"light{k}.intensity.value"] = math.pi * scale * torch.as_tensor(light.colour).to(like)
    if any(isinstance(light, Harmonics) for light in around):
        tensors["sky.data"] = _sky(around, like)
    elif around:
        colors = [torch.as_tensor(light.colour).to(like) for light in around if isinstance(light, Ambient)]
        tensors["sky.radiance.value"] = torch.stack(colors).sum(0)
    return tensors


def describe(mi, parts: Sequence[Part], tensors: Tensors, law: str) -> dict[str, Any]:
    """The dictionary of meshes and lights; `mi` is the module with its variant set."""
    arrays = {name: x.detach().cpu().float().numpy() for name, x in tensors.items()}
    content: dict[str, Any] = {}
    for k, part in enumerate(parts):
        content[f"part{k}"] = _mesh(mi, part, f"part{k}", arrays, law)
    for name in dict.fromkeys(name.split(".")[0] for name in arrays if not name.startswith("part")):
        fields = {key.removeprefix(f"{name}."): a for key, a in arrays.items() if key.startswith(f"{name}.")}
        if "data" in fields:
            # Mitsuba's sky has y up; ours is drawn for z up
            up = mi.ScalarTransform4f([[1, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
            content[name] = {"type": "envmap", "bitmap": mi.Bitmap(fields["data"]), "to_world": up}
        elif "radiance.value" in fields:
            content[name] = {"type": "constant", "radiance": _rgb(fields["radiance.value"])}
        elif "position" in fields:
            content[name] = {"type": "point", "position": fields["position"].tolist()}
            content[name]["intensity"] = _rgb(fields["intensity.value"])
        else:
            content[name] = {"type": "directional", "irradiance": _rgb(fields["irradiance.value"])}
            content[name]["to_world"] = mi.ScalarTransform4f(fields["to_world"].tolist())
    return content


def sensor(mi, camera: Camera, spp: int, alpha: bool, border: bool) -> dict[str, Any]:
    """Sensor with a film of linear RGB, optionally with alpha, and with samples in a border around it.

    Raises:
        InputError: If the camera has skew or pixels that are not square.
    """
    content = to_mitsuba(camera)
    content["to_world"] = mi.ScalarTransform4f(content["to_world"])
    content["film"] = {
        "type": "hdrfilm",
        "width": camera.width,
        "height": camera.height,
        "pixel_format": "rgba" if alpha else "rgb",
        "component_format": "float32",
        "rfilter": {"type": "box"},
        "sample_border": border,
    }
    # spread evenly over pixel and lights: a fifteenth of the noise of independent samples on a lit floor
    content["sampler"] = {"type": "multijitter", "sample_count": spp}
    return content


def mirror(appearance: Appearance, law: str) -> tuple[float, float]:
    """Share of the light in highlights, and roughness α of the mirror."""
    strength, shininess = float(appearance.specular), float(appearance.shininess)
    if law not in ("phong", "blinn-phong") or strength <= 0:
        return 0.0, 0.0
    square = 2 / ((4 if law == "phong" else 1) * shininess + 2)
    return min(4 * square * strength, MIRROR), math.sqrt(square)


def _mesh(mi, part: Part, name: str, arrays: dict, law: str):
    """Mitsuba's mesh with its material."""
    look, fields = (
        part.appearance,
        {k.removeprefix(f"{name}."): a for k, a in arrays.items() if k.startswith(f"{name}.")},
    )
    which, faces, _ = corners(part)
    properties = mi.Properties()
    properties["mesh_bsdf"] = mi.load_dict(_material(mi, look, fields, law))
    properties["face_normals"] = not look.smooth
    textured = "vertex_texcoords" in fields
    mesh = mi.Mesh(
        part.name,
        len(which),
        len(faces),
        has_vertex_normals=look.smooth,
        has_vertex_texcoords=textured,
        props=properties,
    )
    if "vertex_color" in fields:
        mesh.add_attribute("vertex_color", 3, fields["vertex_color"].ravel())
    buffers = mi.traverse(mesh)
    buffers["faces"] = faces.cpu().numpy().astype("uint32").ravel()
    for key in ("vertex_positions", "vertex_normals", "vertex_texcoords"):
        if key in fields:
            buffers[key] = fields[key].ravel()
    buffers.update()
    return mesh


def _material(mi, appearance: Appearance, own: dict, law: str) -> dict[str, Any]:
    if "vertex_texcoords" in own:
        image = own[_color_name(appearance, law)].copy()
        reflectance: dict[str, Any] = {"type": "bitmap", "bitmap": mi.Bitmap(image), "raw": True}
    elif "vertex_color" in own:
        reflectance = {"type": "mesh_attribute", "name": "vertex_color"}
    else:
        reflectance = _rgb(own[_color_name(appearance, law)])
    content: dict[str, Any] = {"type": "diffuse", "reflectance": reflectance}
    share, roughness = mirror(appearance, law)
    if share:
        shiny = {"type": "roughconductor", "material": "none", "distribution": "beckmann", "alpha": roughness}
        content = {"type": "blendbsdf", "weight": share, "matt": content, "shiny": shiny}
    return {"type": "twosided", "material": content}


def _color_name(appearance: Appearance, law: str) -> str:
    """Name of the diffuse color in Mitsuba."""
    if appearance.pattern is None and appearance.vertex_colors is not None:
        return "vertex_color"
    place = "bsdf.brdf_0.bsdf_0" if mirror(appearance, law)[0] else "bsdf.brdf_0"
    return f"{place}.reflectance.{'value' if appearance.pattern is None else 'data'}"


def _rgb(color) -> dict[str, Any]:
    if (color < 0).any():
        raise InputError(f"a color is {color.tolist()}; Mitsuba needs numbers of at least 0.")
    return {"type": "rgb", "value": color.tolist()}


def _normals(vertices: Tensor, faces: Tensor) -> Tensor:
    """Unit normals of vertices (n, 3): those of the faces around, by area."""
    a, b, c = vertices[faces].unbind(1)
    across = torch.linalg.cross(b - a, c - a)
    total = torch.zeros_like(vertices).index_add(0, faces.T.reshape(-1), across.repeat(3, 1))
    return unit(total)


def _towards(direction: Tensor) -> Tensor:
    """A rotation (4, 4) that takes z to a unit vector."""
    side = torch.eye(3).to(direction)[int(direction.detach().abs().argmin())]
    x = unit(torch.linalg.cross(side, direction))
    turn = torch.stack([x, torch.linalg.cross(direction, x), direction], 1)
    whole = torch.nn.functional.pad(turn, (0, 1, 0, 1))
    return whole + torch.diag(whole.new_tensor([0.0, 0.0, 0.0, 1.0]))


def _sky(lights: Sequence[Light], like: Tensor) -> Tensor:
    """Radiance (h, w, 3) from around, at least 0, as an image by longitude and latitude with z up."""
    height, width = SKY
    theta = math.pi * torch.arange(height).to(like) / (height - 1)  # the first and last rows are the poles
    phi = 2 * math.pi * (torch.arange(width).to(like) + 0.5) / width
    theta, phi = torch.meshgrid(theta, phi, indexing="ij")
    # Mitsuba: u = atan2(x, −z)/2π and v = acos(y)/π in its own axes, which are our (x, z, −y)
    directions = torch.stack([theta.sin() * phi.sin(), theta.sin() * phi.cos(), theta.cos()], -1)
    total = torch.zeros_like(directions)
    for light in lights:
        if isinstance(light, Harmonics):
            total = total + harmonics(directions) @ torch.as_tensor(light.coefficients).to(like)
        elif isinstance(light, Ambient):
            total = total + torch.as_tensor(light.colour).to(like)
    return total.clamp_min(0.0)
