"""Triangle meshes in files, with what they are painted with: solids, and sheets."""

from pathlib import Path

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import image_io, sheet
from gradsim.geometry.mesh import Mesh, check

FORMATS = (".obj", ".stl", ".ply", ".glb")


def load(path: str | Path, scale: float = 1.0) -> Mesh:
    """A solid from an obj, stl, ply or glb file, with its uv, texture or vertex colours if it has any.

    Vertices at the same place become one, of the colour of the first.

    Args:
        path: The file. Its coordinates are taken as they are; glb files often have y up.
        scale: Metres per unit of the file: 0.001 for millimetres.

    Raises:
        InputError: If there is no such file, it cannot be read, or it bounds no solid (see `check`).
    """
    mesh = _read(Path(path), scale)
    check(mesh, str(path))
    return mesh


def load_sheet(path: str | Path, scale: float = 1.0) -> Mesh:
    """A sheet, such as a cloth, from an obj, stl, ply or glb file; as `load`, but the mesh need not be closed.

    Raises:
        InputError: If there is no such file, it cannot be read, or it is no sheet (see `sheet.check_sheet`).
    """
    mesh = _read(Path(path), scale)
    sheet.check_sheet(mesh, str(path))
    return mesh


def _read(path: Path, scale: float) -> Mesh:
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} is none of {', '.join(FORMATS)}; convert it to one of these.")
    if not path.is_file():
        raise InputError(f"there is no mesh file {path}.")
    import trimesh

    try:
        raw = trimesh.load_mesh(path, process=False)
        vertices, faces = np.asarray(raw.vertices, np.float64), np.asarray(raw.faces, np.int64)
        uv, colours, texture = _paint(raw.visual, path)
    except Exception as error:  # readers of broken files raise errors of any kind
        raise InputError(f"{path} cannot be read as a mesh ({error}); export it again.") from error
    if not len(faces):
        raise InputError(f"{path} has no faces; it holds points or lines, or is cut off. Export a triangle mesh.")
    return _merged(vertices * scale, faces, uv, colours, texture)


def _paint(visual, path: Path) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """What trimesh read besides the shape: uv by vertex (n, 2), vertex colours (n, 3), and the texture (3, h, w)."""
    if visual.kind == "vertex":
        return None, np.asarray(visual.vertex_colors, np.float64)[:, :3] / 255, None
    if visual.kind != "texture" or visual.uv is None:
        return None, None, None
    material = visual.material
    image = getattr(material, "image", None) or getattr(material, "baseColorTexture", None)
    return np.asarray(visual.uv, np.float64), None, image_io.from_image(image, str(path)) if image else None


def _merged(vertices: np.ndarray, faces: np.ndarray, uv=None, colours=None, texture=None) -> Mesh:
    """Without doubled vertices, unused vertices, and faces that the merging made degenerate."""
    if faces.min() < 0 or faces.max() >= len(vertices):
        return Mesh(vertices, faces)
    # + 0.0: −0 and 0 are one place
    unique, first, where = np.unique(vertices + 0.0, axis=0, return_index=True, return_inverse=True)
    places, faces = faces, where.ravel()[faces]
    proper = (faces != np.roll(faces, 1, 1)).all(1)
    used, faces = np.unique(faces[proper], return_inverse=True)
    return Mesh(
        unique[used],
        faces.reshape(-1, 3),
        uv,
        None if uv is None else places[proper],
        None if colours is None else colours[first[used]],
        texture,
    )
