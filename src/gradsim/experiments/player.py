"""The motion in three dimensions, on a page that plays it and needs nothing else (viser's recordings as one file).

The fit moves where the scene has it; for made-up data the truth moves beside it, to the right as the camera sees it.
The camera stands where it was, with the film in its picture; grounds are planes with grid lines.
"""

import contextlib
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradsim.render.camera import from_scene
from gradsim.surface import Part, Surface
from gradsim.video import whole

FIT, TRUTH, PLAIN = (29, 95, 208), (209, 102, 10), (150, 156, 168)  # as in the figures of a report
SMALL = 160  # [px] the film in the camera's picture is thinned to about this
RIGID = 1e-4  # of its size: a part that deforms by more is sent vertex by vertex


@dataclass(frozen=True)
class Stage:
    """Where things are, seen by the camera.

    Args:
        centre: Of the motion [m].
        size: Of its box [m].
        right: Horizontal direction to the camera's right.
        width: Of the motion along it [m].
    """

    centre: np.ndarray
    size: float
    right: np.ndarray
    width: float

    @classmethod
    def of(cls, scene, surface: Surface) -> "Stage":
        """Of the first world."""
        points = surface.vertices[0].detach().reshape(-1, 3).numpy()
        low, high = points.min(0), points.max(0)
        right = from_scene(scene.camera).R[0].numpy() * [1, 1, 0] if scene.camera else np.array([1.0, 0, 0])
        right = right / np.linalg.norm(right) if np.linalg.norm(right) > 1e-6 else np.array([1.0, 0, 0])
        along = points @ right
        return cls((low + high) / 2, float(np.linalg.norm(high - low)), right, float(along.max() - along.min()))


def write_player(
    path: str | Path, scene, fitted: Surface, film: np.ndarray | None = None, truth: Surface | None = None
) -> Path | None:
    """Write the page.

    Args:
        path: Ends in .html.
        scene: Its camera, grounds and clock.
        fitted: The motion that was found; its first world is shown.
        film: What was observed (frames, height, width, 3) uint8.
        truth: The true motion, for made-up data.

    Returns:
        The page; None where viser is not installed (`pip install "gradsim[viewer]"`).
    """
    try:
        import viser
    except ImportError:
        return None
    stage = Stage.of(scene, fitted)
    with contextlib.redirect_stdout(io.StringIO()):  # it says where it listens, which nobody needs
        server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        server.scene.set_up_direction("+z")
        _grounds(server.scene, scene, stage, truth is not None)
        beside = stage.right * (1.3 * stage.width if truth is not None else 0.0)
        moving = _Moving(server.scene, "fit", fitted, np.zeros(3), FIT)
        others = [_Moving(server.scene, "truth", truth, beside, TRUTH)] if truth is not None else []
        camera = _camera(server.scene, scene, stage, film)
        _point_of_view(server.initial_camera, scene, stage, beside)
        recording = server.get_scene_serializer()
        for frame in range(fitted.vertices.shape[1]):
            for one in (moving, *others):
                one.show(frame)
            if camera is not None and film is not None:
                camera.image = _thinned(film[min(frame, len(film) - 1)])
            recording.insert_sleep(1 / scene.timing.fps)
        page = recording.as_html()
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()
    path = Path(path)
    with whole(path) as draft:
        draft.write_text(page, encoding="utf-8")
    return path


class _Moving:
    """The parts of a surface in a viser scene."""

    def __init__(self, stage, name: str, surface: Surface, shift: np.ndarray, colour: tuple[int, int, int]):
        self.vertices = surface.vertices[0].detach().numpy() + shift
        self.parts = []
        for part in surface.parts:
            own = self.vertices[:, part.vertices]
            poses = _poses(own)
            mesh = own[0] - own[0].mean(0)
            place = f"/{name}/{part.name}"
            self.parts.append((part, poses, _mesh(stage, place, mesh, part)))
            middle = own.mean(1)
            if len(middle) > 1:
                ends = np.stack([middle[:-1], middle[1:]], 1)
                stage.add_line_segments(f"{place} path", ends, colour, thickness=2.0, thickness_units="screen")
        top = self.vertices.reshape(-1, 3)
        middle = (top.min(0) + top.max(0)) / 2
        stage.add_label(
            f"/{name} label", name, position=(middle[0], middle[1], top[:, 2].max()), anchor="bottom-center"
        )

    def show(self, frame: int) -> None:
        for part, poses, mesh in self.parts:
            own = self.vertices[frame, part.vertices]
            mesh.position = own.mean(0)
            if poses is None:
                mesh.vertices = (own - own.mean(0)).astype(np.float32)
            else:
                mesh.wxyz = poses[frame]


def _mesh(stage, place: str, vertices: np.ndarray, part: Part):
    colour = tuple(round(255 * c) for c in part.colour)
    faces = part.faces.numpy().astype(np.uint32)
    smooth = len(faces) > 100  # a box has corners
    return stage.add_mesh_simple(place, vertices.astype(np.float32), faces, color=colour, flat_shading=not smooth)


def _poses(vertices: np.ndarray) -> np.ndarray | None:
    """Turns (frames, 4), wxyz, from the first of (frames, n, 3) vertices to each (Kabsch 1976); None if they deform."""
    from viser.transforms import SO3

    rest = vertices[0] - vertices[0].mean(0)
    here = vertices - vertices.mean(1, keepdims=True)
    u, _, vt = np.linalg.svd(np.einsum("fni,nj->fij", here, rest))
    keep = np.ones((len(here), 3))
    keep[:, 2] = np.linalg.det(u @ vt)  # a rotation, also of what is flat
    turns = (u * keep[:, None]) @ vt
    off = np.abs(here - rest @ turns.transpose(0, 2, 1)).max()
    return SO3.from_matrix(turns).wxyz if off < RIGID * np.ptp(rest) else None


def _grounds(stage, scene, seen: Stage, has_truth: bool) -> None:
    """Grounds as grids about the motion."""
    from viser.transforms import SO3

    for name, ground in scene.grounds.items():
        normal = np.array(ground.normal) / np.linalg.norm(ground.normal)
        centre = seen.centre + seen.right * (0.65 * seen.width if has_truth else 0.0)
        foot = centre + (ground.height - normal @ centre) * normal
        side = np.cross(normal, [0.0, 1.0, 0.0] if abs(normal[1]) < 0.9 else [1.0, 0.0, 0.0])
        side /= np.linalg.norm(side)
        turn = SO3.from_matrix(np.stack([side, np.cross(normal, side), normal], 1))
        extent = 2.0 * seen.size + (1.3 * seen.width if has_truth else 0.0)
        cell = 10.0 ** math.floor(math.log10(max(extent, 1e-3) / 4))
        stage.add_grid(
            f"/{name}",
            extent,
            extent,
            cell_size=cell,
            section_size=10 * cell,
            cell_color=PLAIN,
            plane_color=(235, 236, 240),
            plane_opacity=0.7,
            position=foot,
            wxyz=turn.wxyz,
        )


def _camera(stage, scene, seen: Stage, film: np.ndarray | None):
    """The camera where it stood, with the film in its picture; None if the scene has none."""
    if scene.camera is None:
        return None
    from viser.transforms import SO3

    camera = from_scene(scene.camera)
    away = float(np.linalg.norm(camera.centre.numpy() - seen.centre))
    return stage.add_camera_frustum(
        "/camera",
        fov=2 * math.atan(camera.height / 2 / camera.K[1, 1].item()),
        aspect=camera.width / camera.height,
        scale=0.07 * away,
        image=None if film is None else _thinned(film[0]),
        format="png",
        wxyz=SO3.from_matrix(camera.R.T.numpy()).wxyz,
        position=camera.centre.numpy(),
    )


def _thinned(frame: np.ndarray) -> np.ndarray:
    step = max(1, round(max(frame.shape[:2]) / SMALL))
    return np.ascontiguousarray(frame[::step, ::step])


def _point_of_view(view, scene, seen: Stage, beside: np.ndarray) -> None:
    """From behind the camera, above it and to its left, at the middle of all that moves."""
    middle = seen.centre + beside / 2
    eye = from_scene(scene.camera).centre.numpy() if scene.camera else seen.centre - [0, 3 * seen.size, 0]
    away = np.linalg.norm(eye - seen.centre)
    view.look_at = middle
    view.position = middle + 0.9 * (eye - seen.centre) + away * (0.35 * np.array([0, 0, 1.0]) - 0.45 * seen.right)
