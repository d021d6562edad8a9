"""Where the pictures and films of a shot go: names of files, and files that appear whole.

`gradsim render`: pictures and films of a scene or a run folder.

Everything that can be wrong with the input is found before work starts, and every file appears whole.

What `gradsim render` is asked for, and what of that cannot be.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim import video as videos
from gradsim.app.commands import fit
from gradsim.app.controls_file import controls
from gradsim.app.viewer.content import camera_of, known, model_of, scene_of
from gradsim.errors import InputError
from gradsim.geometry.image_io import to_bytes
from gradsim.geometry.surface import Surface
from gradsim.identification.api import placed
from gradsim.physics.model import Model
from gradsim.physics.system import parts_of
from gradsim.physics.trajectory import Trajectory
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim.render.silhouettes import Silhouettes
from gradsim.runtime.atomic import atomic_path, atomic_write
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.scene import Scene
from gradsim.visualization import false_color
from gradsim.visualization.camera_path import turntable
from gradsim.visualization.frames import FrameRenderer, fitting
from gradsim.visualization.overlay_video import HEIGHT
from gradsim.visualization.sheets import evenly, sheet, strip

FORMATS = ("webm", "mp4", "gif", "png")
BUFFERS = ("depth", "normals", "ids", "flow")
MOST = 16384  # [px] largest width or height
LAYOUTS = ("turntable", "sheet", "strip")


@dataclass(frozen=True, kw_only=True)
class Shot:
    """Pictures of a motion. Without `frame` and a layout: a film of all of it.

    Args:
        camera: Which of the scene's cameras.
        format: Of films: "webm", "mp4", "gif", or "png" for folders.
        preview: Films that every player shows, enlarged, not exact.
        renderer: See `gradsim.visualization.frames`; None takes exact coverage with flat colours, or "aa" where the scene has
            textures, lights to be shaded by, or visible grounds.
        spp: Samples per pixel of Mitsuba.
        shading: Law of shading in place of the scene's.
        size: Width and height [px] in place of the camera's.
        frame: One frame alone; of a turntable, the one that it goes round.
        turntable: So many views from all around.
        sheet: Rows and columns of a contact sheet.
        strip: So many instants in one picture.
        buffers: Of "depth", "normals", "ids" and "flow", those to be written too.
    """

    camera: str = "camera"
    format: str = "webm"
    preview: bool = False
    renderer: str | None = None
    spp: int = 64
    shading: str | None = None
    size: tuple[int, int] | None = None
    frame: int | None = None
    turntable: int | None = None
    sheet: tuple[int, int] | None = None
    strip: int | None = None
    buffers: tuple[str, ...] = ()

    @property
    def layout(self) -> str:
        """ "film", "frame", "turntable", "sheet" or "strip"."""
        return next(
            (name for name in LAYOUTS if getattr(self, name) is not None), "film" if self.frame is None else "frame"
        )

    def check(self, frames: int) -> None:
        """Raise `InputError` if it cannot be, of a motion of so many frames."""
        if self.format not in FORMATS or (self.preview and self.format == "png"):
            fit = FORMATS[: -1 if self.preview else None]
            raise InputError(f"format is {self.format!r}; use one of {', '.join(fit)}.")
        asked = [f"--{name}" for name in LAYOUTS if getattr(self, name) is not None]
        if len(asked) > 1:
            raise InputError(f"got {' and '.join(asked)}; ask for one of them at a time.")
        if self.frame is not None and self.layout in ("sheet", "strip"):
            raise InputError(f"--frame is one instant, and --{self.layout} shows several; leave one of them out.")
        if self.preview and self.layout not in ("film", "turntable"):
            raise InputError(f"--preview is for films, not for a {self.layout}; leave it out.")
        if self.buffers and (self.layout not in ("film", "frame") or self.preview):
            raise InputError("depth, normals, ids and flow go with the exact film or with --frame K.")
        if self.frame is not None and not 0 <= self.frame < frames:
            raise InputError(f"--frame is {self.frame}; the motion has frames 0 to {frames - 1}.")
        if "flow" in self.buffers and (frames < 2 or self.frame == frames - 1):
            raise InputError("flow goes from a frame to the next one, and there is none after the last.")
        if self.size and not all(1 <= n <= MOST for n in self.size):
            raise InputError(f"--size is {self.size[0]}x{self.size[1]}; both lie between 1 and {MOST} px.")
        if self.turntable is not None and self.turntable < 2:
            raise InputError(f"--turntable is {self.turntable}; it takes at least 2 views.")
        if self.sheet and not (min(self.sheet) >= 1 and self.sheet[0] * self.sheet[1] <= frames):
            raise InputError(
                f"--sheet is {self.sheet[0]}x{self.sheet[1]}; it needs at least 1x1 and at most the {frames} frames there "
                "are."
            )
        if self.strip is not None and not 2 <= self.strip <= frames:
            raise InputError(
                f"--strip is {self.strip}; it takes between 2 and {frames} instants, the frames there are."
            )


def pair(text: str | None, option: str, what: str) -> tuple[int, int] | None:
    """Two whole numbers with an x between.

    Raises:
        InputError: If the text has another form.
    """
    if text is None:
        return None
    first, cross, second = text.lower().partition("x")
    if not (cross and first.isdecimal() and second.isdecimal()):
        raise InputError(f"{option} is {text!r}; it needs two whole numbers with an x between, {what}.")
    return int(first), int(second)


COLOURS = 256  # of a frame of a gif


@dataclass(frozen=True)
class Gallery:
    """A folder for what a shot makes.

    Args:
        folder: The folder; made with the first file.
        shot: Camera and renderer show in the names.
        fps: Of films [1/s].
    """

    folder: Path
    shot: Shot
    fps: float

    def film(self, kind: str, frames: np.ndarray) -> tuple[Path, bool]:
        """Write a film, bit-exact where its format can and no preview is asked for; whether it is.

        Args:
            kind: Its name but for camera and renderer.
            frames: (frames, height, width, 3) uint8.
        """
        kind = kind if not self.shot.preview else "preview" if kind == "video" else f"{kind}_preview"
        path = self._path(kind, "" if self.shot.format == "png" else f".{self.shot.format}")
        if self.shot.preview:
            factor = max(1, round(HEIGHT / frames.shape[1]))
            videos.write_preview(path, frames.repeat(factor, 1).repeat(factor, 2), self.fps)
        elif path.suffix == ".gif" and max(len(np.unique(f.reshape(-1, 3), axis=0)) for f in frames) > COLOURS:
            videos.write_preview(path, frames, self.fps)
        else:
            videos.write(path, frames, self.fps)
            return path, True
        return path, False

    def picture(self, kind: str, picture: np.ndarray) -> Path:
        """Write a picture (height, width, 3) uint8 as png."""
        from PIL import Image

        path = self._path(kind, ".png")
        with atomic_path(path) as draft:
            Image.fromarray(picture).save(draft)
        return path

    def arrays(self, kind: str, arrays: dict[str, np.ndarray]) -> Path:
        """Write arrays by name as npz."""
        path = self._path(kind, ".npz")
        with atomic_write(path) as file:
            np.savez_compressed(file, **arrays)  # pyright: ignore[reportArgumentType]
        return path

    def _path(self, kind: str, suffix: str) -> Path:
        """side_mask.webm; the film itself of a further camera is side.webm, and one by `aa` video_aa.webm."""
        further = [self.shot.camera] if self.shot.camera != "camera" else []
        renderer = [self.shot.renderer] if self.shot.renderer not in (None, "coverage") else []
        words = [*further, *([] if further and kind == "video" else [kind]), *renderer]
        return self.folder / f"{'_'.join(words)}{suffix}"


Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Rendered:
    """What was made.

    Args:
        files: Paths by kind, such as "video" and "mask".
        frames: Frames of the film; pictures in a sheet or strip.
        lossless: Whether the film is bit-exact, so that it can be fitted.
    """

    files: dict[str, Path]
    frames: int
    lossless: bool


def render(
    target: Path, shot: Shot | None = None, out: Path | None = None, progress: Progress | None = None
) -> Rendered:
    """Make the pictures of a shot.

    A plain film goes to video.webm, with the bodies' mask, by exact coverage, in mask.webm (of a further camera: side.webm
    and side_mask.webm; by another renderer that was asked for: video_aa.webm and mask_aa.webm).

    Args:
        target: A run folder, of which fits show their estimates and controllers their best policy; or a scene file or the
            name of a library scene, which is simulated into `out` first.
        shot: What to make.
        out: The folder for it; by default the run folder, or runs/NAME for a scene.
        progress: Is told what happens.

    Raises:
        InputError: If the folder holds no run, the scene no such camera, or the shot cannot be.
    """
    shot, progress, target = shot or Shot(), progress or NullProgress(), Path(target)
    scene = scene_of(target) if target.is_dir() else fit.open_scene(target)
    shot.check(scene.timing.frames)
    scene.view(shot.camera)
    values = placed(scene, known(target, scene)) | controls(target) if target.is_dir() else {}
    model = model_of(target, scene) if target.is_dir() else Model(scene)
    folder = Path(out or (target if target.is_dir() else Path("runs") / target.stem))
    camera = camera_of(scene, shot.camera, model.values(values))
    camera = camera.resized(*shot.size) if shot.size else camera
    looks = [
        part.look for part in (*(p for s in model.systems for p in parts_of(s)), *(s.part(0) for s in model.scenery))
    ]
    renderer = shot.renderer or ("aa" if shot.shading not in (None, "colour") else fitting(scene, looks))
    artist = FrameRenderer(renderer, camera, Shading.of(scene, shot.shading), tuple(scene.background), shot.spp)
    if not target.is_dir():
        _simulated(target, folder, progress)
    gallery = Gallery(folder, shot, scene.timing.fps)
    progress.stage(f"moving {scene.timing.frames} frames")
    with torch.no_grad():
        studio = _Studio(shot, scene, model.rollout(values), artist, gallery, progress)
        made = getattr(studio, shot.layout)()
    progress.done()
    return made


def _simulated(target: Path, folder: Path, progress: Progress) -> None:
    result = folder / "result.json"
    kept = json.loads(result.read_text(encoding="utf-8")).get("command") if result.is_file() else "simulate"
    if kept != "simulate":
        raise InputError(f"{folder} holds a run of `gradsim {kept}`; choose another --out.")
    fit.simulate(target, folder, progress)


@dataclass(frozen=True)
class _Studio:
    """A shot in work: one method for each layout."""

    shot: Shot
    scene: Scene
    motion: Trajectory
    artist: FrameRenderer
    gallery: Gallery
    progress: Progress

    def film(self) -> Rendered:
        films = {"video": self._drawn(self._surface())}
        count = len(films["video"])
        if not self.shot.preview:
            masks = Silhouettes(self.artist.camera).union(self.motion.surface)[0]
            films["mask"] = to_bytes(masks[..., None].expand(-1, -1, -1, 3))
        arrays, pictures = self._buffers(self._surface())
        written = {kind: self.gallery.film(kind, film) for kind, film in (films | pictures).items()}
        files = {kind: path for kind, (path, _) in written.items()}
        if arrays:
            files["arrays"] = self.gallery.arrays("buffers", arrays)
        return Rendered(files, count, all(exact for _, exact in written.values()))

    def frame(self) -> Rendered:
        k = self.shot.frame or 0
        arrays, pictures = self._buffers(self._surface(slice(k, k + 2)), 1)
        stem, files = f"frame_{k:03d}", {}
        for kind, film in ({"frame": self._drawn(self._surface(slice(k, k + 1)))} | pictures).items():
            files[kind] = self.gallery.picture(stem if kind == "frame" else f"{stem}_{kind}", film[0])
        if arrays:
            files["arrays"] = self.gallery.arrays(stem, arrays)
        return Rendered(files, 1, True)

    def turntable(self) -> Rendered:
        k, views = self.shot.frame or 0, self.shot.turntable or 2
        surface = self._surface(slice(k, k + 1))
        solid = [surface.vertices[0, 0, p.vertices] for p in surface.parts if p.name not in self.scene.grounds]
        points = torch.cat(solid).to(torch.float64)
        cameras = turntable(self.artist.camera, (points.amin(0) + points.amax(0)) / 2, views)
        images = (image for camera in cameras for image in replace(self.artist, camera=camera).draw(surface))
        path, exact = self.gallery.film("turntable", self._counted(images, views, "views"))
        return Rendered({"video": path}, views, exact)

    def sheet(self) -> Rendered:
        rows, columns = self.shot.sheet or (1, 1)
        chosen = evenly(len(self.motion.times), rows * columns)
        labels = [f"{self.motion.times[k].item():.3f} s" for k in chosen]
        page = sheet(self._drawn(self._surface(chosen)), columns, labels)
        return Rendered({"sheet": self.gallery.picture("sheet", page)}, len(chosen), True)

    def strip(self) -> Rendered:
        chosen = evenly(len(self.motion.times), self.shot.strip or 2)
        surface = self._surface(chosen)
        pictures = [image.numpy() for image in self._told(self.artist.draw(surface), len(chosen), "instants")]
        shares = [share.numpy() for share in self.artist.share(surface, list(self.scene.bodies))]
        still = self.artist.without(surface, list(self.scene.bodies)).numpy()
        image = strip(pictures, shares, still)
        return Rendered({"strip": self.gallery.picture("strip", to_bytes(image))}, len(chosen), True)

    def _surface(self, frames: slice | list[int] = slice(None)) -> Surface:
        drawn = self.motion.drawn
        return Surface(drawn.vertices[:1, frames], drawn.parts)

    def _drawn(self, surface: Surface) -> np.ndarray:
        return self._counted(self.artist.draw(surface), surface.vertices.shape[1], "frames")

    def _counted(self, images: Iterable[Tensor], total: int, what: str) -> np.ndarray:
        """Images as (frames, height, width, 3) uint8."""
        return np.stack([to_bytes(image) for image in self._told(images, total, what)])

    def _told(self, images: Iterable[Tensor], total: int, what: str) -> Iterator[Tensor]:
        self.progress.stage(f"rendering {total} {what} with {self.artist.renderer}")
        for k, image in enumerate(images):
            self.progress.share(k + 1, total)
            yield image

    def _buffers(self, surface: Surface, frames: int | None = None) -> tuple[Arrays, Arrays]:
        """What is asked for besides colours, of the first frames: raw arrays, and films to look at."""
        arrays = {}
        if self.shot.buffers:
            picture = Renderer(self.artist.camera).picture(surface)
            arrays = {name: getattr(picture, name)[0, :frames].numpy() for name in self.shot.buffers}
        films = {name: getattr(false_color, name)(array) for name, array in arrays.items()}
        if "ids" in arrays:
            arrays["names"] = np.array([part.name for part in surface.parts])
        return arrays, films
