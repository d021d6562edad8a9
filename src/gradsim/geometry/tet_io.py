"""Tetrahedral mesh files: .tet; .msh (Gmsh), .vtu (VTK) and .mesh (Medit) through meshio (extra `tet`).

A .tet file is text: a line `v x y z` for every vertex, a line `t i j k l` for every tetrahedron, counted from 0, and
comments after `#`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import tet_mesh
from gradsim.geometry.tet_mesh import TetMesh
from gradsim.geometry.validation import of
from gradsim.runtime.atomic import atomic_path

READERS = {".msh": "gmsh", ".vtu": "vtu", ".mesh": "medit"}  # module of meshio
FORMATS = (".tet", *READERS)
IGNORED_CELLS = ("vertex", "line", "triangle", "quad")  # of lower dimension, which Gmsh writes along with the solid


def load(path: str | Path, scale: float = 1.0) -> TetMesh:
    """Load a solid from a .tet, .msh, .vtu or .mesh file.

    Points, lines and triangles in the file are ignored, as are vertices used only by them, such as centres of arcs.

    Args:
        path: The file.
        scale: Meters per unit of the file, such as 0.001 for millimeters.

    Raises:
        InputError: If the file does not exist, cannot be read (other than .tet also without the extra `tet`), has cells
            of another kind, or does not fill a solid (see `tet_mesh.check`).
    """
    path = Path(path)
    suffix = _suffix(path)
    if not path.is_file():
        raise InputError(f"mesh file {path} does not exist.")
    vertices, tets = _read_text(path) if suffix == ".tet" else _read_by_meshio(path)
    mesh = TetMesh(vertices * scale, tets)
    tet_mesh.check(mesh, str(path))
    return mesh


def save(mesh: TetMesh, path: str | Path) -> None:
    """Write a mesh atomically; `load` restores it bit for bit.

    Args:
        mesh: The mesh.
        path: The file; its suffix gives the format.

    Raises:
        InputError: If the suffix is unknown, the extra `tet` is missing, or the file cannot be written.
    """
    path = Path(path)
    suffix = _suffix(path)
    if suffix == ".tet":
        lines = [f"v {x!r} {y!r} {z!r}\n" for x, y, z in mesh.vertices.tolist()]
        lines += [f"t {i} {j} {k} {l}\n" for i, j, k, l in mesh.tets.tolist()]
        with atomic_path(path) as draft:
            draft.write_text("".join(lines))
        return
    meshio = _meshio(path)
    with atomic_path(path) as draft:
        getattr(meshio, READERS[suffix]).write(draft, meshio.Mesh(mesh.vertices, [("tetra", mesh.tets)]))


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{path} has an unknown suffix; convert it to one of {', '.join(FORMATS)}.")
    return suffix


def _read_text(path: Path) -> tuple[np.ndarray, np.ndarray]:
    rows: dict[str, list[list[float]]] = {"v": [], "t": []}
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
        kind, *values = line.partition("#")[0].split() or [""]
        if not kind:
            continue
        try:
            rows[kind].append([float(x) if kind == "v" else int(x) for x in values])
            if len(values) != {"v": 3, "t": 4}[kind]:
                raise ValueError
        except (KeyError, ValueError):
            raise InputError(f"{path}, line {number}: got {line!r}; expected `v x y z` or `t i j k l`.") from None
    return np.array(rows["v"], np.float64).reshape(-1, 3), np.array(rows["t"], np.int64).reshape(-1, 4)


def _read_by_meshio(path: Path) -> tuple[np.ndarray, np.ndarray]:
    meshio = _meshio(path)
    try:
        raw = getattr(meshio, READERS[path.suffix.lower()]).read(path)
    except Exception as error:  # readers of broken files raise errors of any kind
        raise InputError(f"{path} cannot be read as a mesh ({error!r}); export it again.") from error
    kinds = {block.type for block in raw.cells}
    other = sorted(kind for kind in kinds if kind != "tetra" and not kind.startswith(IGNORED_CELLS))
    if other:
        raise InputError(f"{path} has cells of kind {', '.join(other)}; export tetrahedra with four vertices alone.")
    tets = [block.data for block in raw.cells if block.type == "tetra"]
    if not tets:
        raise InputError(f"{path} has no tetrahedra; export the solid, not its surface.")
    tets = np.concatenate(tets).astype(np.int64)
    bad = np.flatnonzero(((tets < 0) | (tets >= len(raw.points))).any(1))
    if len(bad):
        raise InputError(
            f"{path}: tetrahedron {bad[0]} names a vertex that is not there{of(bad)}; the file is cut off."
        )
    used, tets = np.unique(tets, return_inverse=True)
    return np.asarray(raw.points, np.float64)[used], tets.reshape(-1, 4)


def _meshio(path: Path) -> Any:
    try:
        import meshio
    except ImportError as error:
        raise InputError(f'{path} needs meshio ({error}): pip install "gradsim[tet]".') from None
    return meshio
