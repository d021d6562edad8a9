"""Scenes in viser: moving bodies, grounds, camera frusta with images, and the initial viewpoint.

Used by the player of reports and by the viewer. viser is an extra (`pip install "gradsim[viewer]"`) and imported lazily.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from gradsim.geometry.surface import Part, Surface
from gradsim.render.camera import Camera
from gradsim.visualization.gltf import is_painted, painted

FIT, TRUTH, NEUTRAL = (29, 95, 208), (209, 102, 10), (150, 156, 168)  # as in the figures of a report
RIGID_DEFORMATION = 1e-4  # of its size: parts that deform more are sent vertex by vertex
STATIC_MOTION = 1e-6  # of its size: parts that move less are static
MIN_ASPECT = 1.05  # width over height of the narrowest window that shows everything initially
VIEW_MARGIN = 1.08  # margin around the contents
FRUSTUM = 0.12  # length of a frustum, relative to the distance of the camera


@dataclass(frozen=True)
class Stage:
    """Bounding box of a trajectory, and the horizontal axis of the camera.

    Args:
        low, high: Corners of the bounding box [m].
        right: Horizontal unit vector to the right of the first camera.
    """

    low: np.ndarray
    high: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, surface: Surface, camera: Camera | None, without: Collection[str] = ()) -> "Stage":
        """Stage of the first world of a surface; `without` names parts to leave out, such as grounds."""
        parts = [surface.vertices[0, :, p.vertices].detach() for p in surface.parts if p.name not in without]
        points = np.concatenate([part.reshape(-1, 3).numpy() for part in parts])
        right = camera.R[0].numpy() * [1, 1, 0] if camera else np.array([1.0, 0, 0])
        length = np.linalg.norm(right)
        right = right / length if length > 1e-6 else np.array([1.0, 0, 0])
        return cls(points.min(0), points.max(0), right)

    def wider(self, shift: np.ndarray) -> "Stage":
        """Extended by a copy shifted by `shift` [m]."""
        return Stage(np.minimum(self.low, self.low + shift), np.maximum(self.high, self.high + shift), self.right)

    @property
    def centre(self) -> np.ndarray:
        return (self.low + self.high) / 2

    @property
    def size(self) -> float:
        """Diagonal of the box [m]."""
        return float(np.linalg.norm(self.high - self.low))

    @property
    def width(self) -> float:
        """Extent of the box along `right` [m]."""
        return float(np.abs(self.right) @ (self.high - self.low))

    @property
    def corners(self) -> np.ndarray:
        """Corners of the box (8, 3) [m]."""
        return np.array(np.meshgrid(*np.stack([self.low, self.high], 1))).reshape(3, 8).T


class Actor:
    """One part of a surface, as nodes of a viser scene.

    Attributes:
        mesh: Node of the mesh; with textures or vertex colors it is always opaque.
        path: Node of the path of its centre; None if static.
        moves: True if any vertex moves.
    """

    def __init__(self, scene, name: str, vertices: np.ndarray, part: Part, color=None, path_color=FIT):
        """Add the part to a viser scene.

        Args:
            scene: The viser scene.
            name: Name of the node.
            vertices: Vertices (frames, n, 3) [m].
            part: Faces and appearance.
            color: RGB in 0 … 255 in place of the appearance.
            path_color: RGB in 0 … 255 of the path.
        """
        self.vertices, self.poses = vertices, poses(vertices)
        rest, least = vertices[0] - vertices[0].mean(0), STATIC_MOTION * np.ptp(vertices[0])
        self.moves = bool(np.abs(vertices - vertices[0]).max() > least)
        if is_painted(part) and color is None and self.poses is not None:
            self.mesh = scene.add_mesh_trimesh(name, painted(rest, part))
        else:
            self.mesh = scene.add_mesh_simple(
                name,
                rest.astype(np.float32),
                part.faces.numpy().astype(np.uint32),
                color=color or tuple(round(255 * float(c)) for c in part.color),
                flat_shading=not part.appearance.smooth,
                side="double" if self.moves and _is_open(part) else "front",  # grounds are transparent from below
            )
        self.middle, self.path = vertices.mean(1), None
        if np.abs(self.middle - self.middle[0]).max() > least:
            ends = np.stack([self.middle[:-1], self.middle[1:]], 1)
            self.path = scene.add_line_segments(
                f"{name} path", ends, path_color, thickness=2.0, thickness_units="screen"
            )
        self.show(0)

    def show(self, frame: int) -> None:
        """Move to a frame."""
        self.mesh.position = self.middle[frame]
        if self.poses is None:
            self.mesh.vertices = (self.vertices[frame] - self.middle[frame]).astype(np.float32)
        else:
            self.mesh.wxyz = self.poses[frame]


def _is_open(part: Part) -> bool:
    """True if an edge has one triangle only, as in sheets, which show both sides."""
    edges = np.sort(part.faces.numpy()[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), 1)
    return bool((np.unique(edges, axis=0, return_counts=True)[1] == 1).any())


def actors(scene, folder: str, surface: Surface, shift=(0.0, 0.0, 0.0), **colors) -> dict[str, Actor]:
    """Add the parts of the first world of a surface under /folder; keyword arguments as for `Actor`."""
    vertices = surface.vertices[0].detach().numpy() + np.asarray(shift)
    return {p.name: Actor(scene, f"/{folder}/{p.name}", vertices[:, p.vertices], p, **colors) for p in surface.parts}


def poses(vertices: np.ndarray) -> np.ndarray | None:
    """Rotations (frames, 4), wxyz, of vertices (frames, n, 3) from the first frame (Kabsch 1976); None if they deform."""
    from viser.transforms import SO3

    rest = vertices[0] - vertices[0].mean(0)
    current = vertices - vertices.mean(1, keepdims=True)
    u, _, vt = np.linalg.svd(np.einsum("fni,nj->fij", current, rest))
    keep = np.ones((len(current), 3))
    keep[:, 2] = np.linalg.det(u @ vt)  # no reflection, also for flat parts
    turns = (u * keep[:, None]) @ vt
    off = np.abs(current - rest @ turns.transpose(0, 2, 1)).max()
    return SO3.from_matrix(turns).wxyz if off < RIGID_DEFORMATION * np.ptp(rest) else None


class Frustum:
    """Frustum of a camera, with an image.

    Frusta of viser are symmetric about the optical axis: if the principal point is not in the middle, the image gets a
    margin.
    """

    def __init__(self, scene, name: str, camera: Camera, stage: Stage, most: int):
        """Add the frustum to a viser scene.

        Args:
            scene: The viser scene.
            name: Name of the node.
            camera: The camera.
            stage: Contents, for the size of the frustum.
            most: Larger images are thinned to about this side [px].
        """
        from viser.transforms import SO3

        (fx, _, cx), (_, fy, cy), _ = camera.K.tolist()
        self.camera, self.most = camera, most
        self.tangents = max(cx, camera.width - cx) / fx, max(cy, camera.height - cy) / fy
        self.margins = [tuple(round(max(0.0, m)) for m in (n - 2 * c, 2 * c - n)) for n, c in self._sizes(cx, cy)]
        self.length = FRUSTUM * float(np.linalg.norm(camera.centre.numpy() - stage.centre))
        self.node = scene.add_camera_frustum(
            name,
            fov=2 * math.atan(self.tangents[1]),
            aspect=self.tangents[0] / self.tangents[1],
            scale=self.length,
            color=(60, 64, 72),
            thickness=1.5,
            thickness_units="screen",
            format="png",
            wxyz=SO3.from_matrix(camera.R.T.numpy()).wxyz,
            position=camera.centre.numpy(),
        )

    def _sizes(self, cx: float, cy: float) -> tuple[tuple[int, float], tuple[int, float]]:
        return (self.camera.height, cy), (self.camera.width, cx)

    def framed(self, image: np.ndarray) -> np.ndarray:
        """Pad an image (height, width, 3) uint8 so that the optical axis is in its middle."""
        return np.pad(image, (*self.margins, (0, 0)), constant_values=255)

    def show(self, image: np.ndarray) -> None:
        """Set the image (height, width, 3) uint8."""
        framed = self.framed(image)
        step = max(1, round(max(framed.shape[:2]) / self.most))
        self.node.image = np.ascontiguousarray(framed[::step, ::step])

    def backdrop(self, image: np.ndarray, aspect: float) -> np.ndarray:
        """Pad an image (height, width, 3) uint8 to fill a window that looks through the camera.

        Args:
            image: Image of the camera.
            aspect: Width over height of the window.
        """
        (x, y), framed = self.tangents, self.framed(image)
        tangent = max(y, x / aspect)  # of half the window's vertical angle
        size = np.array([framed.shape[0] * tangent / y, framed.shape[1] * tangent * aspect / x])
        margin = np.rint((size - framed.shape[:2]) / 2).astype(int).clip(0)
        return np.pad(framed, (*[(m, m) for m in margin.tolist()], (0, 0)), constant_values=255)

    @property
    def corners(self) -> np.ndarray:
        """Position of the camera and corners of the image plane (5, 3) [m]."""
        x, y = self.tangents
        rays = np.array([[0, 0, 0], *([i * x, j * y, 1] for i in (-1, 1) for j in (-1, 1))]) * self.length
        return rays @ self.camera.R.numpy() + self.camera.centre.numpy()


def add_grounds(scene, grounds, stage: Stage) -> dict:
    """Add grounds that are not `visible` as planes with grid lines around the stage; returns nodes by name."""
    from viser.transforms import SO3

    nodes = {}
    for name, ground in ((name, ground) for name, ground in grounds.items() if not ground.visible):
        normal = np.array(ground.normal) / np.linalg.norm(ground.normal)
        foot = stage.centre + (ground.height - normal @ stage.centre) * normal
        side = np.cross(normal, [0.0, 1.0, 0.0] if abs(normal[1]) < 0.9 else [1.0, 0.0, 0.0])
        side /= np.linalg.norm(side)
        turn = SO3.from_matrix(np.stack([side, np.cross(normal, side), normal], 1))
        extent = 2.0 * stage.size
        cell = 10.0 ** math.floor(math.log10(max(extent, 1e-3) / 4))
        nodes[name] = scene.add_grid(
            f"/{name}",
            extent,
            extent,
            cell_size=cell,
            section_size=10 * cell,
            cell_color=NEUTRAL,
            plane_color=(235, 236, 240),
            plane_opacity=0.7,
            position=foot,
            wxyz=turn.wxyz,
        )
    return nodes


def stand_back(view, stage: Stage, cameras: list[Frustum], aside: float = 0.0) -> None:
    """Set a viewpoint that shows the trajectory and all cameras: left of the first camera, and above it.

    Args:
        view: Initial camera of a viser server.
        stage: Bounding box of the trajectory.
        cameras: Frusta to keep in view.
        aside: Shift to the left by this fraction of half the height of the window, to leave room for a panel.
    """
    points = np.concatenate([stage.corners, *(camera.corners for camera in cameras)])
    middle = (points.min(0) + points.max(0)) / 2
    back = np.cross(stage.right, [0.0, 0.0, 1.0])  # from the motion to the camera
    away = 0.6 * back - 0.7 * stage.right + [0, 0, 0.7]
    away = away / np.linalg.norm(away)
    level = np.cross([0.0, 0.0, 1.0], away)
    level /= np.linalg.norm(level)
    upright = np.cross(away, level)
    steep = math.tan(view.fov / 2)
    off = points - middle
    half = np.maximum(np.abs(off @ level) / MIN_ASPECT, np.abs(off @ upright)) / steep
    distance = VIEW_MARGIN * (off @ away + half).max()
    view.look_at = middle + aside * steep * distance * level
    view.position = view.look_at + distance * away
    view.up = (0.0, 0.0, 1.0)


__all__ = ["FIT", "NEUTRAL", "TRUTH", "Actor", "Frustum", "Stage", "actors", "add_grounds", "poses", "stand_back"]
