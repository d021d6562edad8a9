"""Tetrahedral meshes from closed surfaces, by fTetWild (Hu et al. 2020; extra `tet`).

wildmeshing runs in a separate process: it prints at any log level, leaves a file in its working folder, and a crash would
end the caller.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from gradsim.errors import InputError
from gradsim.geometry import mesh as meshes
from gradsim.geometry import tet_mesh
from gradsim.geometry.mesh import Mesh
from gradsim.geometry.tet_mesh import TetMesh
from gradsim.geometry.validation import lengths

TOLERANCE = 1e-3  # of the size; fTetWild's own
NOT_INSTALLED_EXIT_CODE = 77  # exit code of the process where wildmeshing is not installed
WORK = f"""
import sys
import numpy as np
try:
    from wildmeshing import Tetrahedralizer
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit({NOT_INSTALLED_EXIT_CODE})
given = np.load(sys.argv[1])
mesher = Tetrahedralizer(epsilon=float(given["tolerance"]), edge_length_r=float(given["edge"]), max_threads=1)
mesher.set_log_level(6)
mesher.set_mesh(given["vertices"], given["faces"])
mesher.tetrahedralize()
vertices, tets = mesher.get_tet_mesh()[:2]
np.savez(sys.argv[2], vertices=vertices, tets=tets)
"""


def tetrahedralize(mesh: Mesh, edge_length: float, tolerance: float | None = None) -> TetMesh:
    """Fill a closed surface with tetrahedra.

    Not deterministic: two calls give two meshes. Save the one that is used (`tet_io.save`).

    Args:
        mesh: The surface.
        edge_length: Target edge length [m]; edges are shorter where the surface needs it.
        tolerance: Distance that the surface may move [m]; thinner features may vanish. Default: 1e-3 of the size; larger
            values make a coarser solid.

    Raises:
        InputError: If the mesh bounds no solid, a length is not above 0, wildmeshing is not installed (extra `tet`) or
            finds no mesh, or what it finds has tetrahedra of no or negative volume (by index, with the volume) or
            another volume than the surface.
    """
    meshes.check(mesh, "mesh")
    (edge,) = lengths("edge_length", edge_length) / mesh.size
    (reach,) = lengths("tolerance", TOLERANCE * mesh.size if tolerance is None else tolerance)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "surface.npz", Path(folder) / "solid.npz"
        faces = mesh.faces.astype(np.int32)
        np.savez(source, vertices=mesh.vertices, faces=faces, edge=edge, tolerance=reach / mesh.size)
        command = [sys.executable, "-P", "-c", WORK, source, target]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)  # it leaves files there
        if run.returncode == NOT_INSTALLED_EXIT_CODE:
            last = run.stderr.strip().rpartition("\n")[2]
            raise InputError(f'tetrahedra from a surface need wildmeshing ({last}): pip install "gradsim[tet]".')
        if run.returncode or not target.exists():
            last = (run.stderr.strip() or run.stdout.strip() or "nothing was printed").rpartition("\n")[2]
            raise InputError(
                f"wildmeshing stopped with exit code {run.returncode} ({last}); try another edge_length (now "
                f"{edge_length} m), or a simpler surface."
            )
        with np.load(target) as arrays:
            solid = TetMesh(arrays["vertices"], arrays["tets"])
    tet_mesh.check(solid, "what wildmeshing made of the mesh")
    _check_volume(solid, mesh, reach)
    return solid


def _check_volume(solid: TetMesh, mesh: Mesh, tolerance: float) -> None:
    """Check the volume: a surface moved by at most the tolerance sweeps its area times that; creases get twice as much."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces], 1, 0)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    volume = solid.volumes.sum()
    if abs(volume - mesh.volume) > 2 * area * tolerance:
        raise InputError(
            f"wildmeshing filled {volume:.4g} m³ of a surface that holds {mesh.volume:.4g} m³; give a smaller "
            f"tolerance (now {tolerance:.3g} m) or edge_length, or mend the surface."
        )
