"""A ball of triangles drawn and differentiated: gradsim beside DEODR, Mitsuba and plain PyTorch, in one run.

Times are CPU time of one thread, the least of repetitions that take turns (others share the machine). Forward is one
picture of each image in the batch; forward and backward adds the gradient of a weighted sum by vertices and colours.
Gradsim and PyTorch compute in float32. `silhouette` and `colour` are SoftRas with a blur of 1 px; a box-pixel is a pixel
in the box around a triangle, grown by the reach of its blur and cut to the image, which is what a soft rasteriser has to
look at. `aa` is the z-buffer with exact coverage, colours by vertex; `texture` the same with a texture on it.

DEODR's figure is its C++ core alone, with the silhouette edges given: render and backward at σ = 1 px. Ours has the
projection, the search for silhouettes, and autograd in it. Mitsuba traces direct light with 16 samples a pixel, and its
gradient by vertices with as many (`llvm_ad_rgb`, projective sampling), on all its threads' CPU time. PyTorch is the
plain twin that the tests compare SoftRas with.
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import trimesh
from clock import REPEATS, Case, best, memory
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.geometry.surface import Appearance, Surface
from gradsim.render import Antialiased, Renderer, Shading, SoftRas, look_at
from gradsim.render.silhouettes import Silhouettes
from gradsim.render.view import View

BALLS = {
    "320": (2,),
    "720": (12, 30),
    "5120": (4,),
    "81920": (6,),
}  # icosphere by subdivisions, or sphere by rings and segments
TABLE = ("320", "720", "5120")
BESIDE_DEODR = (("320", 64, 1), ("5120", 256, 1), ("81920", 256, 1), ("320", 64, 30), ("320", 256, 30))
SIZES, BATCHES = (64, 256, 512), (1, 30)
REACH = 3.035  # [blur] where SoftRas cuts off: D = 1e-4 at d² = σ log(1e4 - 1)
SPP = 16  # samples of a pixel by Mitsuba

os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # the profiler that counts memory is silent


def ball(name: str) -> tuple[Tensor, Tensor]:
    """Vertices (n, 3) of a ball of radius 0.8 m, and faces (m, 3)."""
    how = BALLS[name]
    made = trimesh.creation.icosphere(how[0]) if len(how) == 1 else trimesh.creation.uv_sphere(1.0, how)
    return torch.tensor(made.vertices, dtype=torch.float32) * 0.8, torch.tensor(made.faces)


class Job:
    """One ball, size and batch.

    Args:
        name: See `BALLS`.
        size: Rows and columns [px].
        batch: Images, each a little turned.
    """

    def __init__(self, name: str, size: int, batch: int):
        self.size, self.batch = size, batch
        vertices, self.faces = ball(name)
        angle = torch.linspace(0, 0.5, batch)
        turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).view(batch, 2, 2)
        moved = torch.cat([vertices[None, :, :2] @ turn, vertices[None, :, 2:].expand(batch, -1, -1)], -1)
        self.vertices = moved[None].contiguous().requires_grad_()
        generator = torch.Generator().manual_seed(0)
        self.colors = torch.rand(len(vertices), 3, generator=generator).requires_grad_()
        self.camera = look_at((0.0, -3.0, 0.3), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0), 0.8, size, size)
        self.weight = torch.rand(1, batch, 3, size, size, generator=generator)
        self.texture = torch.rand(3, 128, 128, generator=generator)
        self.uv = vertices[:, :2] / 1.7 + 0.5

    def surface(self, textured: bool = False) -> Surface:
        painted: dict[str, Any] = {"uv": self.uv, "uv_faces": self.faces, "texture": self.texture} if textured else {}
        look = Appearance(vertex_colors=None if textured else self.colors, **painted)
        return Surface.of(self.vertices, self.faces, look, convex=True)

    def view(self) -> View:
        return View.of(self.surface(), Silhouettes(self.camera))

    def box_pixels(self) -> int:
        """Pixels in the boxes of all faces, with the reach of a blur of 1 px."""
        corners = self.view().screen.detach()[:, self.faces, :2]
        low = (corners.amin(2) - REACH - 0.5).ceil().clamp(0, self.size)
        high = ((corners.amax(2) + REACH - 0.5).floor() + 1).clamp(0, self.size)
        return int((high - low).clamp_min(0).prod(-1).sum())

    def ours(self, how: str) -> tuple[Case, Case]:
        """Forward, and forward with backward, of `silhouette`, `colour`, `aa` or `texture`."""
        if how == "silhouette":
            soft = Renderer(self.camera, SoftRas())
            draw = lambda: soft.alpha(self.surface())
        else:
            rasterizer = SoftRas(gamma=1e-2, near=1.0, far=5.0) if how == "colour" else Antialiased()
            renderer, textured = Renderer(self.camera, rasterizer, Shading()), how == "texture"
            draw = lambda: renderer(self.surface(textured))
        weight = self.weight[:, :, 0] if how == "silhouette" else self.weight

        def forward():
            with torch.no_grad():
                return draw()

        def both():
            given = [self.vertices] if how in ("silhouette", "texture") else [self.vertices, self.colors]
            return torch.autograd.grad(draw(), given, weight)

        return forward, both


def twin(job: Job) -> tuple[Case, Case]:
    """Silhouettes by the plain twin of the tests, in float32, one image at a time."""
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
    from twins import softras  # pyright: ignore[reportMissingImports] -- of the tests

    faces = job.faces.long()

    def draw():
        screen = job.view().screen
        return torch.stack([softras.silhouette(s[None], faces, job.size, job.size, sigma=1.0)[0] for s in screen])

    def forward():
        with torch.no_grad():
            return draw()

    return forward, lambda: torch.autograd.grad(draw(), [job.vertices], job.weight[0, :, 0].double())


def deodr(job: Job) -> tuple[Case, Case]:
    """The core of DEODR on one image."""
    from deodr import differentiable_renderer as peer  # pyright: ignore[reportMissingImports] -- extra `bench`

    view = job.view()
    screen = view.screen.detach()[0].double().numpy()
    faces, n = job.faces.numpy(), screen.shape[0]
    front = view.is_front[0].numpy()
    owners = {}
    for k, face in enumerate(faces.tolist()):
        for i in range(3):
            owners.setdefault(frozenset((face[i], face[(i + 1) % 3])), []).append(k)
    flags = np.zeros((len(faces), 3), bool)
    for k, face in enumerate(faces.tolist()):
        for i in range(3):
            around = owners[frozenset((face[i], face[(i + 1) % 3]))]
            flags[k, i] = front[k] and not all(front[j] for j in around)
    zeros = {"uv": np.zeros((n, 2)), "shade": np.zeros(n), "ij": screen[:, :2] - 0.5, "depths": screen[:, 2].copy()}
    scene = peer.Scene2D(
        faces=faces.astype(np.uint32),
        faces_uv=faces.astype(np.uint32),
        textured=np.zeros(len(faces), bool),
        shaded=np.zeros(len(faces), bool),
        colors=job.colors.detach().double().numpy(),
        edgeflags=flags,
        height=job.size,
        width=job.size,
        nb_colors=3,
        texture=np.zeros((0, 0)),
        background_color=np.ones(3),
        clockwise=False,
        backface_culling=True,
        **zeros,
    )
    scene.uv_b, scene.ij_b = np.zeros((n, 2)), np.zeros((n, 2))
    scene.shade_b, scene.colors_b = np.zeros(n), np.zeros((n, 3))
    weight = np.ascontiguousarray(job.weight[0, 0].permute(1, 2, 0).double().numpy())
    image, depth = np.empty((job.size, job.size, 3)), np.empty((job.size, job.size))

    def forward():
        peer.renderScene(scene, 1.0, image, depth, check_valid=False)
        return image

    def both():
        forward()
        for name in ("ij_b", "colors_b"):
            getattr(scene, name).fill(0.0)
        peer.renderSceneB(scene, 1.0, image, depth, image_b=weight, check_valid=False)
        return scene.ij_b, scene.colors_b

    return forward, both


def mitsuba(job: Job) -> tuple[Case, Case | None]:
    """One image by Mitsuba; no backward pass where its variant with gradients does not work."""
    from gradsim.errors import InputError
    from gradsim.render.mitsuba.renderer import Mitsuba

    def plain():
        with torch.no_grad():
            return Mitsuba(job.camera, spp=SPP, depth=2)(surface)

    surface = job.surface()
    try:
        renderer = Mitsuba(job.camera, spp=SPP, depth=2, variant="llvm_ad_rgb")
    except InputError:
        return plain, None
    return plain, lambda: torch.autograd.grad(renderer(surface), [job.vertices], job.weight)


def video_gradient() -> Case:
    """Gradient by mass, friction and start of a 30-frame film of 256 × 256 pixels: physics, Phong shading, `aa`."""
    from gradsim.physics import Model
    from gradsim.scene import Scene

    scene = Scene.library("cube")
    timing = scene.timing.model_copy(update={"frames": 30})
    assert scene.camera
    camera = scene.camera.model_copy(update={"size": (256, 256)})
    scene = scene.model_copy(update={"timing": timing, "camera": camera, "shading": "phong"})
    model, renderer = Model(scene), Renderer.of(scene)
    target = torch.zeros(1, 30, 3, 256, 256, dtype=torch.float32)

    def run():
        surface = model.rollout().surface
        video = renderer(Surface(surface.vertices.float(), surface.parts))
        (video - target).square().mean().backward()

    return run


def table() -> tuple[list[str], dict[tuple, float]]:
    """Nanoseconds per box-pixel (silhouette, colour) or per pixel (aa, texture), and memory, of all cases."""
    lines = ["faces  size  batch  how         forward   + backward   per       memory"]
    found = {}
    for name in TABLE:
        for size in SIZES:
            for batch in BATCHES:
                if batch > 1 and (size == 512 or (size == 256 and name == "5120")):
                    continue  # minutes, and nothing new
                job = Job(name, size, batch)
                for how in ("silhouette", "colour", "aa", "texture"):
                    soft = how in ("silhouette", "colour")
                    pixels = job.box_pixels() if soft else batch * size**2
                    forward, both = job.ours(how)
                    least = best({"forward": forward, "both": both}, 2 if batch > 1 else REPEATS)
                    ns = {key: 1e9 * t / pixels for key, t in least.items()}
                    unit, held = "box-px" if soft else "px", memory(both)
                    lines.append(
                        f"{name:>5} {size:>5} {batch:>6}  {how:<10} {ns['forward']:>8.1f} {ns['both']:>12.1f} ns "
                        f"{unit:<7} {held:>8.1f} MB"
                    )
                    print(lines[-1], flush=True)
                    found[name, size, batch, how] = ns["both"]
    return lines, found


def render() -> tuple[dict, list[str]]:
    """All figures of the renderer."""
    lines, found = table()
    figures = {}
    for how, goal in (("silhouette", 45.0), ("colour", 100.0)):
        worst = max(ns for (*_, kind), ns in found.items() if kind == how)
        figures[f"{how}_ns_per_box_pixel"] = figure(worst, goal=goal)
    for name, size in (("320", 256), ("5120", 256)):
        figures |= beside_peers(name, size, lines)
    if importlib.util.find_spec("deodr"):
        for name, size, batch in BESIDE_DEODR:
            figures |= beside_deodr(name, size, batch, lines)
    video = best({"video": video_gradient()}, 3)["video"]
    figures["video_gradient_seconds"] = figure(video, goal=1.0)
    return figures, lines


def beside_deodr(name: str, size: int, batch: int, lines: list[str]) -> dict:
    """Times of `aa` and of soft silhouettes, forward and backward, over those of DEODR, which draws one image at a time."""
    job = Job(name, size, batch)
    cases = {"deodr": deodr(job)[1], "aa": job.ours("aa")[1], "silhouette": job.ours("silhouette")[1]}
    times = best(cases)
    times["deodr"] *= batch
    lines += [f"{name} faces, {size} px, {batch} images: {key} {1e3 * t:.2f} ms" for key, t in times.items()]
    goals = {"aa": 2.0 if batch == 1 else 1.0, "silhouette": 1.5}
    which = f"vs_deodr_{name}_{size}" + (f"_x{batch}" if batch > 1 else "")
    return {f"{how}_{which}": figure(times[how] / times["deodr"], goal=goal) for how, goal in goals.items()}


def beside_peers(name: str, size: int, lines: list[str]) -> dict:
    """Times of ours over those of DEODR, and of Mitsuba and PyTorch over ours."""
    job = Job(name, size, 1)
    ours, soft = job.ours("aa"), job.ours("silhouette")
    cases: dict[str, Case | None] = {
        "aa forward": ours[0],
        "aa": ours[1],
        "silhouette": soft[1],
        "silhouette forward": soft[0],
    }
    for peer, needs in ((deodr, "deodr"), (mitsuba, "mitsuba")):
        if importlib.util.find_spec(needs):
            forward, both = peer(job)
            cases |= {f"{needs} forward": forward, needs: both}
        else:
            lines.append(f'{needs} is not installed: pip install "gradsim[bench]"')
    times = best(cases)
    if name == "320":  # 5 120 faces at every pixel are gigabytes
        small = Job(name, 64, 1)
        plain = twin(small)
        few = {"twin forward": plain[0], "twin": plain[1]}
        few |= dict(zip(("64 forward", "64"), small.ours("silhouette"), strict=True))
        times |= best(few, 3)
    lines += [f"{name} faces, {size} px: {key} {1e3 * t:.2f} ms" for key, t in times.items()]
    figures = {}
    if "deodr" in times:
        slower = times["aa"] / times["deodr"]
        figures[f"vs_deodr_{name}_{size}"] = figure(slower, goal=5.0)
    if "mitsuba forward" in times:
        kind = "" if "mitsuba" in times else " forward"  # no gradients here: pictures against pictures
        faster = times["mitsuba" + kind] / times["aa" + kind]
        figures[f"vs_mitsuba_{name}_{size}"] = figure(faster, goal=100.0, ok=faster >= 100.0)
    if "twin" in times:
        faster = times["twin"] / times["64"]
        figures["silhouette_vs_torch_320_64"] = figure(faster, goal=100.0, ok=faster >= 100.0)
    return figures
