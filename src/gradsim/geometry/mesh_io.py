"""Triangle mesh files (OBJ, STL, PLY, GLB) of solids and sheets, with uv, textures and vertex colors."""

from pathlib import Path

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import image_io, sheet
from gradsim.geometry.mesh import Mesh, check

FORMATS = (".obj", ".stl", ".ply", ".glb")


def load(path: str | Path, scale: float = 1.0) -> Mesh:
    """Load a solid with its uv, texture or vertex colors.

    Vertices at the same position are merged and take the color of the first.

    Args:
        path: An .obj, .stl, .ply or .glb file. Axes are kept; GLB files often have y up.
        scale: Meters per unit of the file, such as 0.001 for millimeters.

    Raises:
        InputError: If the file does not exist, cannot be read, or does not bound a solid (see `mesh.check`).
    """
    mesh = _read(Path(path), scale)
    check(mesh, str(path))
    return mesh


def load_sheet(path: str | Path, scale: float = 1.0) -> Mesh:
    """Load a sheet, such as a cloth: as `load`, but the mesh may be open.

    Raises:
        InputError: If the file does not exist, cannot be read, or is not a sheet (see `sheet.check_sheet`).
    """
    mesh = _read(Path(path), scale)
    sheet.check_sheet(mesh, str(path))
    return mesh


def _read(path: Path, scale: float) -> Mesh:
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} has an unknown suffix; convert it to one of {', '.join(FORMATS)}.")
    if not path.is_file():
        raise InputError(f"mesh file {path} does not exist.")
    import trimesh

    try:
        raw = trimesh.load_mesh(path, process=False)
        vertices, faces = np.asarray(raw.vertices, np.float64), np.asarray(raw.faces, np.int64)
        uv, colors, texture = _attributes(raw.visual, path)
    except Exception as error:  # readers of broken files raise errors of any kind
        raise InputError(f"{path} cannot be read as a mesh ({error}); export it again.") from error
    if not len(faces):
        raise InputError(f"{path} has no faces; it holds points or lines, or is cut off. Export a triangle mesh.")
    return _merged(vertices * scale, faces, uv, colors, texture)


def _attributes(visual, path: Path) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Attributes of a trimesh visual: uv by vertex (n, 2), vertex colors (n, 3), texture (3, h, w)."""
    if visual.kind == "vertex":
        return None, np.asarray(visual.vertex_colors, np.float64)[:, :3] / 255, None
    if visual.kind != "texture" or visual.uv is None:
        return None, None, None
    material = visual.material
    image = getattr(material, "image", None) or getattr(material, "baseColorTexture", None)
    return np.asarray(visual.uv, np.float64), None, image_io.from_image(image, str(path)) if image else None


def _merged(vertices: np.ndarray, faces: np.ndarray, uv=None, colors=None, texture=None) -> Mesh:
    """Mesh without duplicate vertices, unused vertices and degenerate faces."""
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
        None if colors is None else colors[first[used]],
        texture,
    )
