"""`gradsim render`: pictures and films of a scene or a run folder.

Everything that can be wrong with the input is found before work starts, and every file appears whole.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.app import runs
from gradsim.app.control_values import controls
from gradsim.app.gallery import Gallery
from gradsim.app.shot import Shot
from gradsim.app.viewable import camera_of, known, model_of, scene_of
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
from gradsim.runtime.progress import Progress, Silent
from gradsim.scene import Scene
from gradsim.visualization import false_color
from gradsim.visualization.camera_path import turntable
from gradsim.visualization.frames import Artist, fitting
from gradsim.visualization.sheets import evenly, sheet, strip

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
    shot, progress, target = shot or Shot(), progress or Silent(), Path(target)
    scene = scene_of(target) if target.is_dir() else runs.open_scene(target)
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
    artist = Artist(renderer, camera, Shading.of(scene, shot.shading), tuple(scene.background), shot.spp)
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
    runs.simulate(target, folder, progress)


@dataclass(frozen=True)
class _Studio:
    """A shot in work: one method for each layout."""

    shot: Shot
    scene: Scene
    motion: Trajectory
    artist: Artist
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
