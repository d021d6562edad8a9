"""Films of the front page and pictures of the gallery and tutorials, into docs/images.

python docs/pictures.py            # all
python docs/pictures.py fit strips # some: fit, network, control, strips, tutorials
"""

import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

import gradsim as gs
from gradsim import video
from gradsim.app.commands.control import ControlArguments, control
from gradsim.app.commands.render import render
from gradsim.app.commands.render_options import RenderOptions
from gradsim.render import from_scene
from gradsim.visualization.frames import FrameRenderer
from gradsim.visualization.sheets import evenly, strip

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
LOOKS = {  # of all pictures: a matte floor in daylight
    "shading": "lambert",
    "lights": {
        "sky": {"kind": "ambient", "colour": [0.55, 0.55, 0.57]},
        "sun": {"kind": "directional", "direction": [0.4, 0.7, -0.8], "colour": [0.55, 0.55, 0.52]},
    },
}
INK = (40, 44, 52)


def with_looks(content: dict) -> dict:
    """Content of a scene in daylight, whose grounds are visible."""
    content = {**content, **LOOKS}
    grounds = content.get("grounds") or ({"ground": content["ground"]} if "ground" in content else {})
    content.pop("ground", None)
    square = {"size": 12, "colour": [0.8, 0.8, 0.76]}
    return content | {"grounds": {name: {**ground, "visible": square} for name, ground in grounds.items()}}


def write_gif(name: str, frames: list[Image.Image], fps: float) -> None:
    """A film that repeats, with one palette of 40 colors."""
    palette = frames[len(frames) // 2].convert("P", palette=Image.Palette.ADAPTIVE, colors=40)
    quantized = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    path = IMAGES / f"{name}.gif"
    quantized[0].save(
        path, save_all=True, append_images=quantized[1:], duration=round(1000 / fps), loop=0, optimize=True
    )
    print(path.name, path.stat().st_size // 1000, "kB")


def captioned(images: list[Image.Image], words: list[str], gap: int = 8) -> Image.Image:
    """Images side by side with a line below each."""
    width, height = sum(i.width for i in images) + gap * (len(images) - 1), images[0].height + 26
    page, x = Image.new("RGB", (width, height), "white"), 0
    for image, text in zip(images, words, strict=True):
        page.paste(image, (x, 0))
        font = ImageFont.load_default(13)
        ImageDraw.Draw(page).text((x + image.width / 2, image.height + 13), text, INK, font, anchor="mm")
        x += image.width + gap
    return page


def fit() -> None:
    """A noisy clip of the cube, and the fit to it, drawn with light and a floor."""
    scene, names = gs.Scene.library("cube"), ["cube.mass:2:12", "ground.friction:0.2:1"]
    with tempfile.TemporaryDirectory() as folder:
        path = gs.examples.clip("cube", Path(folder) / "clip.webm", noise=2 / 255)
        clip = video.read(path).frames
        answer = gs.identify(scene, names, gs.Clip(path, noise=2 / 255), starts=4)
    content = with_looks(scene.model_dump(by_alias=True, exclude_unset=True))
    shown = gs.Scene.parse(content)
    values = {name: torch.tensor([x], dtype=torch.float64) for name, x in answer.values.items()}
    lens = from_scene(shown.camera).resized(288, 288)
    drawn = FrameRenderer("aa", lens, gs.Shading.of(shown), tuple(shown.background))
    with torch.no_grad():
        surface = gs.Model(shown).rollout(values).scene_surface
        images = [Image.fromarray((255 * image.numpy()).round().astype(np.uint8)) for image in drawn.draw(surface)]
    mass, friction = answer.unknowns.values()
    words = [
        "a clip of 64 x 64 pixels",
        f"{mass.value:.3f} ± {mass.std:.3f} kg, friction {friction.value:.4f} ± {friction.std:.4f}",
    ]
    frames = [
        captioned([Image.fromarray(pixels).resize((288, 288), Image.Resampling.NEAREST), image], words)
        for pixels, image in zip(clip, images, strict=True)
    ]
    write_gif("film_fit", frames + frames[-1:] * 10, 15)


def network() -> None:
    """Throws at six goals by the network of the tutorial, before, during and after its training."""
    spec = importlib.util.spec_from_file_location("pages", ROOT / "docs" / "pages.py")
    assert spec and spec.loader
    pages = importlib.util.module_from_spec(spec)
    sys.modules["pages"] = pages
    spec.loader.exec_module(pages)
    names: dict = {}
    blocks = [
        step.code for step in pages.steps((ROOT / "docs" / "tutorials" / "network.md").read_text(encoding="utf-8"))
    ]
    for code in blocks[:2]:
        exec(code, names)  # noqa: S102 -- it is our own
    before, loop = blocks[2].split("for iteration in range(201):")
    exec(before, names)  # noqa: S102
    lens = names["camera"].resized(256, 192)
    silhouettes = gs.Silhouettes(lens)
    colors = np.array(
        [[0.85, 0.3, 0.2], [0.2, 0.45, 0.8], [0.2, 0.6, 0.3], [0.85, 0.6, 0.1], [0.5, 0.3, 0.7], [0.1, 0.6, 0.65]]
    )
    chosen = [int(k) for k in names["test_places"][:, 0].argsort()[[2, 14, 26, 38, 50, 61]]]
    horizon, films, done = lens.height, [], 0
    for count in (0, 20, 180):
        exec(f"for iteration in range({count}):{loop}", names)  # noqa: S102
        done += count
        with torch.no_grad():
            velocity = names["start"] + names["network"](names["test_masks"][chosen])
            right, up = velocity.unbind(1)
            overrides = {"ball.velocity": torch.stack([right, 0 * right, up], 1)}
            masks = silhouettes.masks(names["model"].rollout(overrides).surface)[:, :, 0].numpy()
        pixels, _ = lens.project(names["test_places"][chosen])
        images = []
        for frame in masks.transpose(1, 0, 2, 3):
            image = np.full((horizon, lens.width, 3), 0.93)
            for color, mask in zip(colors, frame, strict=True):
                image = image * (1 - mask[..., None]) + mask[..., None] * color
            picture = Image.fromarray((255 * image).round().astype(np.uint8))
            draw = ImageDraw.Draw(picture)
            for color, (u, v) in zip(colors, np.asarray(pixels), strict=True):
                draw.ellipse([u - 13, v - 13, u + 13, v + 13], outline=tuple((255 * color).astype(int)), width=2)
            images.append(picture)
        films.append(images)
    words = ["untrained", "after 20 steps", "after 200 steps"]
    frames = [captioned(list(row), words) for row in zip(*films, strict=True)]
    write_gif("film_network", frames + frames[-1:] * 12, 15)


def control_film() -> None:
    """The walker on its way to the outline of a goal."""
    with tempfile.TemporaryDirectory() as folder:
        control(ControlArguments(task="walker"), Path(folder))
        frames = video.read(Path(folder) / "best.webm").frames[::3]
    images = [Image.fromarray(frame[: len(frame) // 2]) for frame in frames]  # the goal alone is below
    images = [
        image.resize((576, round(576 * image.height / image.width)), Image.Resampling.LANCZOS) for image in images
    ]
    write_gif("film_control", images + images[-1:] * 12, 20)


def example(name: str):
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_strip(name: str, scene, camera=None, instants: int = 5) -> None:
    """Some instants of a scene in one image of 480 × 360 pixels."""
    lens = (camera or from_scene(scene.camera)).resized(480, 360)
    drawn = FrameRenderer("aa", lens, gs.Shading.of(scene), tuple(scene.background))
    with torch.no_grad():
        trajectory = gs.Model(scene).rollout()
        surface = trajectory.scene_surface.at(evenly(len(trajectory.times), instants), slice(0, 1))
        images = [image.numpy() for image in drawn.draw(surface)]
        shares = [share.numpy() for share in drawn.share(surface, list(scene.bodies))]
        empty = drawn.without(surface, list(scene.bodies)).numpy()
    image = Image.fromarray((255 * strip(images, shares, empty)).round().astype(np.uint8))
    image.quantize(128).save(IMAGES / f"{name}.png", optimize=True)
    print(name, (IMAGES / f"{name}.png").stat().st_size // 1000, "kB")


def strips() -> None:
    """Examples whose motion is their picture."""
    for name in ("mass_from_video", "two_bodies", "beam_stiffness", "ball_density", "flag_drag"):
        write_strip(f"gallery_{name}", gs.Scene.parse(with_looks(example(name).SCENE)))
    for name in ("throw_to_an_image", "string_of_a_pendulum"):
        module = example(name)
        write_strip(f"gallery_{name}", gs.Scene.parse(with_looks(module.SCENE)), module.CAMERA)
    arm = gs.Scene.library("arm").model_dump(by_alias=True, exclude_unset=True)
    write_strip("gallery_arm", gs.Scene.parse(with_looks(arm)))
    with tempfile.TemporaryDirectory() as folder:
        example("muscles_to_an_image").main(folder=folder)
        image = Image.open(Path(folder) / "muscles.png")
        image = image.resize((2 * image.width, 2 * image.height), Image.Resampling.LANCZOS)
        image.quantize(64).save(IMAGES / "gallery_muscles_to_an_image.png", optimize=True)
    for name in ("box", "obstacles"):
        content = gs.Scene.load(ROOT / "examples" / f"{name}.yaml").model_dump(by_alias=True, exclude_unset=True)
        write_strip(f"gallery_{name}", gs.Scene.parse(with_looks(content)))


def tutorials() -> None:
    """Pictures that the tutorials make."""
    with tempfile.TemporaryDirectory() as folder:
        render(Path("beam"), RenderOptions(strip=5, size=(480, 360)), Path(folder))
        Image.open(Path(folder) / "strip.png").quantize(64).save(IMAGES / "tutorial_beam.png", optimize=True)
        control(ControlArguments(task="throw"), Path(folder) / "throw")
        stages = Image.open(Path(folder) / "throw" / "stages.png")
        stages.resize((1218, 188), Image.Resampling.LANCZOS).quantize(64).save(
            IMAGES / "tutorial_throw.png", optimize=True
        )


if __name__ == "__main__":
    makers = {"fit": fit, "network": network, "control": control_film, "strips": strips, "tutorials": tutorials}
    for chosen in sys.argv[1:] or makers:
        makers[chosen]()
