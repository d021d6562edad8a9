"""One scene by two renderers: our own, which is fast, and Mitsuba, which traces paths of light (gradsim[mitsuba]).

The cube of the library falls beside a ball. Only Mitsuba's picture has shadows, and light from one thing on another.

    python examples/path_traced.py [PICTURE.png]
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

import gradsim as gs
from gradsim.render import Renderer
from gradsim.render.mitsuba.renderer import Mitsuba

VIEW = {"eye": [0.5, -2.6, 1.3], "target": [0.05, 0.1, 0.25], "fov": "38 deg"}
LOOKS = {
    "grounds": {"floor": {"visible": {"size": 6, "texture": "tiles.png", "repeat": 10}}},
    "lights": {
        "sky": {"kind": "ambient", "colour": [0.4, 0.43, 0.47]},
        "sun": {"kind": "directional", "direction": [1.2, 1.5, -2.2], "colour": [0.75, 0.7, 0.6]},
    },
    "shading": "blinn-phong",
}
BALL = {
    "shape": {"sphere": {"radius": 0.25}},
    "mass": 1,
    "position": [0.45, 0.3, 0.6],
    "colour": [0.75, 0.25, 0.15],
    "material": {"specular": 0.5, "shininess": 60},
}


def main(width: int = 400, spp: int = 256, image: str | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures (3, height, width) of the same moment by our own renderer and by Mitsuba; writes them side by side."""
    tiles = np.kron(np.indices((2, 2)).sum(0) % 2, np.ones((16, 16)))[..., None] * [40, 45, 45] + [180, 170, 160]
    with TemporaryDirectory() as folder:
        Image.fromarray(tiles.astype(np.uint8)).save(Path(folder, "tiles.png"))
        content = gs.Scene.library("cube").model_dump(by_alias=True, exclude_none=True) | LOOKS
        content["bodies"] = {**content["bodies"], "ball": BALL}
        content["camera"] = {"size": [width, width * 3 // 4], "look_at": VIEW}
        scene = gs.Scene.parse(content, folder=folder)
        with torch.no_grad():
            drawn = gs.Model(scene).rollout(frames=7).scene_surface
            surface = gs.Surface(drawn.vertices[:, -1:], drawn.parts)
            ours = Renderer.of(scene, samples=2)(surface)[0, 0].clamp(0, 1)
            traced = Mitsuba.of(scene, spp=spp)(surface)[0, 0].clamp(0, 1)
    if image:
        both = torch.cat([ours, traced], 2).movedim(0, -1)
        Image.fromarray((255 * both).round().byte().numpy()).save(image)
    return ours, traced


if __name__ == "__main__":
    main(image=next(iter(sys.argv[1:]), "path_traced.png"))
