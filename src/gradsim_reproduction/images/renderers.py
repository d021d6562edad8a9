"""One scene by all rasterizers and shading laws, compared with Mitsuba."""

import importlib.util
from dataclasses import replace

import torch
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.physics import Model
from gradsim.render import Renderer, Shading
from gradsim.render.renderer import RASTERIZERS
from gradsim.render.softras.rasterizer import SoftRas
from gradsim.scene import Scene
from gradsim.visualization.sheets import sheet
from gradsim_reproduction.plotting import save_image
from gradsim_reproduction.runner import Outcome, Run, experiment

LAWS = ("colour", "lambert", "phong", "blinn-phong", "texture")
CHECKS, SQUARE = 8, 8  # squares of the pattern each way, and texels of a square
LONG = 6  # legs of the paths of light of Mitsuba in the column of flat colours, which it does not draw


@experiment("renderers", "One scene by all renderers")
def renderers(run: Run) -> Outcome:
    """Draw sheet.png: one row per rasterizer and one for Mitsuba, one column per shading law, textures last.

    Figures are mean distances from Mitsuba's images, shadows included, with Phong highlights. Quick: smaller images with
    fewer samples.
    """
    scene = still_life((96, 72) if run.quick else (240, 180))
    with torch.no_grad():
        surface = _textured(Model(scene).rollout(frames=1).scene_surface)
    names = (*RASTERIZERS, *(["mitsuba"] if importlib.util.find_spec("mitsuba") else []))
    images = {}
    for name in names:
        for law in LAWS:
            run.progress.stage(f"{name}, {law}")
            images[name, law] = _draw(scene, surface, name, law, 8 if run.quick else 256, run.seed)
    labels = [f"{name}, {law}" for name, law in images]
    labels = [f"mitsuba, {LONG} legs" if label == "mitsuba, colour" else label for label in labels]
    save_image(run.out / "sheet.png", sheet([to_bytes(x.movedim(0, -1)) for x in images.values()], len(LAWS), labels))
    distance = lambda name: (images[name, "phong"] - images["mitsuba", "phong"]).abs().mean().item()
    figures = {f"{name}_from_mitsuba": figure(distance(name)) for name in RASTERIZERS if "mitsuba" in names}
    caption = "Mitsuba traces direct light: its shadows, and no highlights of the ambient light, are the difference."
    return {"images": [{"file": "sheet.png", "title": "Rasterizers and shading laws", "caption": caption}]}, figures


def still_life(size: tuple[int, int]) -> Scene:
    """A box, a ring and a ball on a floor."""
    shiny = {"specular": 0.4, "shininess": 30}
    return Scene.parse(
        {
            "bodies": {
                "box": {
                    "shape": {"box": {"size": [0.5, 0.5, 0.5]}},
                    "mass": 1,
                    "position": [-0.5, 0.2, 0.25],
                    "rotation_vector": [0, 0, 0.5],
                    "colour": [0.25, 0.45, 0.85],
                },
                "ring": {
                    "shape": {"torus": {"radius": 0.33, "tube_radius": 0.13}},
                    "mass": 1,
                    "position": [0.35, -0.2, 0.13],
                    "colour": [0.9, 0.5, 0.2],
                    "material": shiny,
                },
                "ball": {
                    "shape": {"sphere": {"radius": 0.2}},
                    "mass": 1,
                    "position": [0.35, -0.2, 0.33],
                    "colour": [0.8, 0.2, 0.25],
                    "material": shiny,
                },
            },
            "ground": {"visible": {"size": 6, "colour": [0.75, 0.75, 0.7]}},
            "lights": {
                "sky": {"kind": "ambient", "colour": [0.35, 0.37, 0.4]},
                "sun": {"kind": "directional", "direction": [0.6, 0.5, -1.0], "colour": [0.7, 0.68, 0.62]},
            },
            "camera": {"size": size, "look_at": {"eye": [0, -2.6, 1.2], "target": [0, 0, 0.2], "fov": "35 deg"}},
        }
    )


def _textured(surface: Surface) -> Surface:
    """The same with a pattern of squares on every body that has texture coordinates."""
    squares = (torch.arange(CHECKS) % 2).repeat_interleave(SQUARE)
    board = (squares[:, None] + squares) % 2
    parts = []
    for part in surface.parts:
        colour = torch.as_tensor(part.color)[:, None, None]
        pattern = torch.where(board.bool(), colour, 1 - 0.5 * (1 - colour)) if part.appearance.uv is not None else None
        parts.append(replace(part, appearance=replace(part.appearance, texture=pattern)))
    return Surface(surface.vertices, tuple(parts))


def _draw(scene: Scene, surface: Surface, name: str, law: str, spp: int, seed: int) -> Tensor:
    """RGB (3, height, width)."""
    plain = "phong" if law == "texture" else law
    shading = Shading.of(scene, plain, textures=law == "texture")
    if name == "mitsuba":
        from gradsim.render.mitsuba.renderer import Mitsuba

        return Mitsuba.of(scene, shading=shading, spp=spp, depth=LONG if law == "colour" else 2, seed=seed)(surface)[
            0, 0
        ]
    rasterizer = SoftRas(blur_px=0.5, near=1.0, far=5.0) if name == "softras" else name
    with torch.no_grad():
        return Renderer.of(scene, rasterizer, shading=shading)(surface)[0, 0]
