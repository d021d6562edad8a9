"""Writing a scene as a model of another engine, with its meshes and a list of what the format cannot say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gradsim.errors import InputError
from gradsim.geometry.mesh import Mesh
from gradsim.runtime.atomic import atomic_write
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.mjcf import mjcf
from gradsim.scene.exporters.text import write_obj
from gradsim.scene.exporters.twin import Twin
from gradsim.scene.exporters.urdf import urdf
from gradsim.scene.exporters.usd import usd
from gradsim.scene.scene import Scene

Files = tuple[dict[str, str], dict[str, Mesh], list[str]]  # texts by file name, meshes by name, notes
FORMATS = ("mjcf", "urdf", "usd")


@dataclass(frozen=True)
class Exported:
    """A model on disk.

    Attributes:
        files: Its model files; meshes are in `meshes` next to them.
        notes: What the format cannot say, or says approximately.
    """

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def export(
    scene: Scene,
    to: str,
    folder: str | Path,
    timestep: float | None = None,
    provenance: Mapping[str, str] | None = None,
    contact_factors: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
) -> Exported:
    """Write a scene as a model of another engine.

    Args:
        scene: The scene; its state at the start, with the impulses at time 0, is that of the model.
        to: Format: `mjcf` (model.xml), `urdf` (a file for each tree of joints) or `usd` (model.usda).
        folder: Output folder; files of an earlier export are replaced.
        timestep: Time step of the model [s], where the format has one; None: that of the scene, or 1 ms where it is `auto`.
        provenance: Texts by key that go into the model.
        contact_factors: MuJoCo's contact numbers over those of the formula, by pair of names and name
            (`gradsim.identification.engines.contact_match`).

    Raises:
        InputError: If the format is unknown, or the folder is a file.
    """
    check(to, folder)
    folder = Path(folder)
    twin = twin_of(scene)
    twin.contact_factors = dict(contact_factors or {})
    texts, meshes, notes = _writer(to)(twin, timestep or time_step(scene), dict(provenance or {}))
    for name, mesh in meshes.items():
        write_obj(folder / "meshes" / f"{name}.obj", mesh)
    for name, text in texts.items():
        with atomic_write(folder / name, "w") as file:
            file.write(text)
    return Exported(tuple(folder / name for name in texts), tuple(notes))


def check(to: str, folder: str | Path) -> None:
    """Raise `InputError` if a format is unknown, or an output folder is a file."""
    if to not in FORMATS:
        raise InputError(f"got the format {to!r}; choose one of {', '.join(FORMATS)}.")
    if Path(folder).is_file():
        raise InputError(f"{folder} is a file; give a folder to write the model in.")


def time_step(scene: Scene) -> float:
    """Time step of a scene [s]; 1 ms where its substeps are `auto`."""
    substeps = scene.timing.substeps
    return 1e-3 if substeps == "auto" else 1 / (scene.timing.fps * substeps)


def _writer(to: str) -> Callable[[Twin, float, dict[str, str]], Files]:
    return {"mjcf": _mjcf, "urdf": _urdf, "usd": usd}[to]


def _mjcf(twin: Twin, timestep: float, provenance: dict[str, str]) -> Files:
    text, meshes, notes = mjcf(twin, timestep, provenance)
    return {"model.xml": text}, meshes, notes


def _urdf(twin: Twin, timestep: float, provenance: dict[str, str]) -> Files:
    del timestep  # URDF has no place for it
    if not twin.links:
        raise InputError(
            "URDF describes links and joints, and the scene has soft bodies only; use mjcf, or usd for solids."
        )
    return urdf(twin, provenance)
