"""`gradsim render`: images and videos of a scene or a run folder.

Wrong options are refused before work starts, and every file appears whole.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim import video as videos
from gradsim.app.commands.render_options import RenderOptions
from gradsim.app.commands.simulate import simulate
from gradsim.app.controls_file import read_controls
from gradsim.app.job import open_scene
from gradsim.app.run_files import read_result
from gradsim.app.viewer.content import calibrated_camera, estimates, load_scene, run_model
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.identification.scene_models import parameter_values
from gradsim.physics.model import Model
from gradsim.physics.trajectory import Trajectory
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.atomic import atomic_path, atomic_write
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene import Scene
from gradsim.visualization import false_color
from gradsim.visualization.camera_path import turntable
from gradsim.visualization.frames import FrameRenderer, default_renderer
from gradsim.visualization.overlay_video import HEIGHT
from gradsim.visualization.sheets import evenly, sheet, strip

GIF_COLORS = 256  # per frame
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class RenderedFiles:
    """Files written by `render`.

    Args:
        files: Paths by kind, such as "video" and "mask".
        frames: Frames of the video; images in a sheet or strip.
        lossless: Write a bit-exact video, so that it can be fitted.
    """

    files: dict[str, Path]
    frames: int
    lossless: bool


def render(
    target: Path, options: RenderOptions | None = None, out: Path | None = None, progress: Progress | None = None
) -> RenderedFiles:
    """Render a scene or a run.

    A video goes to video.webm, and the bodies' mask, by exact coverage, to mask.webm (of a further camera: side.webm and
    side_mask.webm; with `renderer`: video_aa.webm and mask_aa.webm).

    Args:
        target: Run folder (a fit at its estimates, a controller with its best policy), scene file or name of a library
            scene; a scene is simulated into `out` first.
        options: What to render.
        out: Output folder; by default the run folder, or runs/NAME for a scene.
        progress: Receives stages.

    Raises:
        InputError: If the folder holds no run, the scene has no such camera, or an option is wrong.
    """
    options, progress, target = options or RenderOptions(), progress or NullProgress(), Path(target)
    is_run = target.is_dir()
    scene = load_scene(target) if is_run else open_scene(target)
    options.check(scene.timing.frames)
    if options.frame is not None:
        options = replace(options, frame=options.frame % scene.timing.frames)
    scene.view(options.camera)
    values = parameter_values(scene, estimates(target, scene)) | read_controls(target) if is_run else {}
    model = run_model(target, scene) if is_run else Model(scene)
    folder = Path(out or (target if is_run else Path("runs") / target.stem))
    camera = calibrated_camera(scene, options.camera, model.values(values))
    camera = camera.resized(*options.size) if options.size else camera
    looks = [
        part.appearance for part in (*(p for s in model.systems for p in s.parts), *(s.part(0) for s in model.scenery))
    ]
    if camera.optics is not None and (options.buffers or options.shading not in (None, "colour")):
        raise InputError(
            f"camera `{options.camera}` has a lens or shutter, which is drawn in flat colors only: without --buffers, and with "
            "--shading colour."
        )
    renderer = options.renderer or (
        "aa" if options.shading not in (None, "colour") else default_renderer(scene, looks, camera)
    )
    shading = Shading.of(scene, options.shading)
    frame_renderer = FrameRenderer(renderer, camera, shading, tuple(scene.background), options.spp)
    if not is_run:
        model = model.with_substeps(_simulate_into(folder, target, progress)["substeps"])
    writer = _FileWriter(folder, options, scene.timing.fps)
    progress.stage(f"simulating {scene.timing.frames} frames")
    with torch.no_grad():
        layout = _Layouts(options, scene, model.rollout(values), frame_renderer, writer, progress)
        rendered = getattr(layout, options.layout)()
    progress.done()
    return rendered


def _simulate_into(folder: Path, scene: Path, progress: Progress) -> dict:
    command = read_result(folder).get("command", "simulate")
    if command != "simulate":
        raise InputError(f"{folder} holds a run of `gradsim {command}`; choose another --out.")
    return simulate(scene, folder, progress)


@dataclass(frozen=True)
class _Layouts:
    """One method for each layout."""

    options: RenderOptions
    scene: Scene
    trajectory: Trajectory
    renderer: FrameRenderer
    writer: "_FileWriter"
    progress: Progress

    def video(self) -> RenderedFiles:
        frames = {"video": self._render(self._surface())}
        count = len(frames["video"])
        if not self.options.preview:
            masks = Silhouettes(self.renderer.camera).union(self.trajectory.surface)[0]
            frames["mask"] = to_bytes(masks[..., None].expand(-1, -1, -1, 3))
        arrays, images = self._buffers(self._surface())
        written = {kind: self.writer.video(kind, video) for kind, video in (frames | images).items()}
        files = {kind: path for kind, (path, _) in written.items()}
        if arrays:
            files["arrays"] = self.writer.arrays("buffers", arrays)
        return RenderedFiles(files, count, all(is_exact for _, is_exact in written.values()))

    def frame(self) -> RenderedFiles:
        k = self.options.frame or 0
        arrays, images = self._buffers(self._surface(slice(k, k + 2)), 1)
        stem, files = f"frame_{k:03d}", {}
        for kind, frames in ({"frame": self._render(self._surface(slice(k, k + 1)))} | images).items():
            files[kind] = self.writer.image(stem if kind == "frame" else f"{stem}_{kind}", frames[0])
        if arrays:
            files["arrays"] = self.writer.arrays(stem, arrays)
        return RenderedFiles(files, 1, True)

    def turntable(self) -> RenderedFiles:
        k, views = self.options.frame or 0, self.options.turntable or 2
        surface = self._surface(slice(k, k + 1))
        bodies = [surface.vertices[0, 0, p.vertices] for p in surface.parts if p.name not in self.scene.grounds]
        points = torch.cat(bodies).to(torch.float64)
        cameras = turntable(self.renderer.camera, (points.amin(0) + points.amax(0)) / 2, views)
        images = (image for camera in cameras for image in replace(self.renderer, camera=camera).draw(surface))
        path, is_exact = self.writer.video("turntable", self._stack(images, views, "views"))
        return RenderedFiles({"video": path}, views, is_exact)

    def sheet(self) -> RenderedFiles:
        rows, columns = self.options.sheet or (1, 1)
        indices = evenly(len(self.trajectory.times), rows * columns)
        labels = [f"{self.trajectory.times[k].item():.3f} s" for k in indices]
        page = sheet(self._render(self._surface(indices)), columns, labels)
        return RenderedFiles({"sheet": self.writer.image("sheet", page)}, len(indices), True)

    def strip(self) -> RenderedFiles:
        indices = evenly(len(self.trajectory.times), self.options.strip or 2)
        surface = self._surface(indices)
        images = [image.numpy() for image in self._report(self.renderer.draw(surface), len(indices), "instants")]
        coverage = [share.numpy() for share in self.renderer.share(surface, list(self.scene.bodies))]
        empty = self.renderer.without(surface, list(self.scene.bodies)).numpy()
        image = strip(images, coverage, empty)
        return RenderedFiles({"strip": self.writer.image("strip", to_bytes(image))}, len(indices), True)

    def _surface(self, frames: slice | list[int] = slice(None)) -> Surface:
        surface = self.trajectory.scene_surface
        return surface.at(frames, slice(0, 1))

    def _render(self, surface: Surface) -> np.ndarray:
        return self._stack(self.renderer.draw(surface), surface.vertices.shape[1], "frames")

    def _stack(self, images: Iterable[Tensor], total: int, noun: str) -> np.ndarray:
        """Images as (frames, height, width, 3) uint8."""
        return np.stack([to_bytes(image) for image in self._report(images, total, noun)])

    def _report(self, images: Iterable[Tensor], total: int, noun: str) -> Iterator[Tensor]:
        """The images, reporting progress."""
        self.progress.stage(f"rendering {total} {noun} with {self.renderer.renderer}")
        for k, image in enumerate(images):
            self.progress.fraction(k + 1, total)
            yield image

    def _buffers(self, surface: Surface, frames: int | None = None) -> tuple[Arrays, Arrays]:
        """Buffers of the first frames: raw arrays, and false-color images."""
        arrays = {}
        if self.options.buffers:
            output = Renderer(self.renderer.camera).output(surface)
            arrays = {name: getattr(output, name)[0, :frames].numpy() for name in self.options.buffers}
        images = {name: getattr(false_color, name)(array) for name, array in arrays.items()}
        if "ids" in arrays:
            arrays["names"] = np.array([part.name for part in surface.parts])
        return arrays, images


@dataclass(frozen=True)
class _FileWriter:
    """Files of one call; the folder is made with the first.

    Args:
        folder: Output folder.
        options: Camera and renderer are part of the file names.
        fps: Of videos [1/s].
    """

    folder: Path
    options: RenderOptions
    fps: float

    def video(self, kind: str, frames: np.ndarray) -> tuple[Path, bool]:
        """Write a video; returns its path and whether it is bit-exact.

        Args:
            kind: File name without camera and renderer.
            frames: (frames, height, width, 3) uint8.
        """
        options = self.options
        kind = kind if not options.preview else "preview" if kind == "video" else f"{kind}_preview"
        path = self._path(kind, "" if options.format == "png" else f".{options.format}")
        if options.preview:
            factor = max(1, round(HEIGHT / frames.shape[1]))
            videos.write_preview(path, frames.repeat(factor, 1).repeat(factor, 2), self.fps)
        elif path.suffix == ".gif" and max(len(np.unique(f.reshape(-1, 3), axis=0)) for f in frames) > GIF_COLORS:
            videos.write_preview(path, frames, self.fps)
        else:
            videos.write(path, frames, self.fps)
            return path, True
        return path, False

    def image(self, kind: str, pixels: np.ndarray) -> Path:
        """Write an image (height, width, 3) uint8 as png."""
        from PIL import Image

        path = self._path(kind, ".png")
        with atomic_path(path) as draft:
            Image.fromarray(pixels).save(draft)
        return path

    def arrays(self, kind: str, arrays: Arrays) -> Path:
        """Write arrays by name as npz."""
        path = self._path(kind, ".npz")
        with atomic_write(path) as file:
            np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]
        return path

    def _path(self, kind: str, suffix: str) -> Path:
        """For example side_mask.webm; the video of a further camera is side.webm, and that of `aa` video_aa.webm."""
        options = self.options
        camera = [options.camera] if options.camera != "camera" else []
        renderer = [options.renderer] if options.renderer not in (None, "coverage") else []
        words = [*camera, *([] if camera and kind == "video" else [kind]), *renderer]
        return self.folder / f"{'_'.join(words)}{suffix}"
