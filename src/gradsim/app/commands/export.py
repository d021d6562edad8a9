"""`gradsim export`: a scene, or a fit at its estimates, as a model of another engine; and draws from its posterior."""

import csv
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradsim.app.controls_file import constant_controls, read_controls
from gradsim.app.job import open_scene, read_record
from gradsim.app.viewer.content import estimates, load_scene, read_result, run_model
from gradsim.errors import UNTRUSTED, InputError, Status
from gradsim.identification.engines.contact_match import match_contacts, write_film
from gradsim.identification.multi_clip import clip_values
from gradsim.identification.uncertainty.draws import draws
from gradsim.numerics.formatting import rounded, with_error
from gradsim.physics.model import Model
from gradsim.runtime.atomic import atomic_write, write_json
from gradsim.runtime.progress import NullProgress, Progress
from gradsim.runtime.provenance import versions
from gradsim.scene import Scene, exporters
from gradsim.scene.exporters.export import check
from gradsim.scene.exporters.substitution import with_values

SCHEMA = "gradsim.export/1"
STATUSES_THAT_NEED_ANYWAY = (
    *UNTRUSTED,
    Status.UNIDENTIFIABLE,
    Status.UNCONVERGED,
    Status.INTERRUPTED,
    Status.MISSED,
)


@dataclass(frozen=True)
class Source:
    """A scene to export.

    Args:
        scene: The scene, with the estimates of a fit in it.
        timestep: Time step [s].
        result: Content of result.json; empty for a scene.
        provenance: Texts by key that go into the models.
        notes: What of a run no model says.
    """

    scene: Scene
    timestep: float
    result: Mapping
    provenance: dict[str, str]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Models:
    """Models on disk.

    Args:
        files: Model files, the one at the estimates first.
        notes: What the format cannot say.
        record: Content of export.json.
    """

    files: list[Path]
    notes: tuple[str, ...]
    record: dict = field(default_factory=dict)


def export(
    target: Path,
    to: str,
    out: Path,
    anyway: bool = False,
    clip: int = 1,
    samples: int = 0,
    seed: int = 0,
    match_contact: bool = False,
    progress: Progress | None = None,
) -> Models:
    """Write a scene or a run as a model of another engine, and export.json.

    Args:
        target: Run folder (a fit at its estimates, a control run with what it found), scene file or name of a library scene.
        to: Format, of `gradsim.scene.exporters.FORMATS`.
        out: Output folder.
        anyway: Also export a fit whose status does not vouch for its values; the model then carries the status.
        clip: Number of the clip in a fit of several.
        samples: Models of draws from the posterior besides, each in a folder of its own in `samples`.
        seed: Random seed of the draws.
        match_contact: Fit the contact numbers of MuJoCo to a drop and a slide of each body; films of both go to files such as contact_cube.webm.
        progress: Receives stages.

    Raises:
        InputError: If the format or the target is unknown, the output folder is a file, the fit needs `anyway`, there is nothing
            to draw samples from, or no contact to match, or the fit was made by another engine.
    """
    check(to, out)
    if samples and (Path(out) / "samples").exists():
        raise InputError(f"{out} has samples of an earlier export; give another folder.")
    if match_contact and to != "mjcf":
        raise InputError(
            f"contact is matched for MuJoCo, and the format is {to}; leave out --match-contact, or use --to mjcf."
        )
    progress = progress or NullProgress()
    source = open_source(Path(target), anyway, clip)
    values = draws(_with_posterior(source.result), samples, seed) if samples else {}
    if match_contact and source.result.get("engine"):
        raise InputError(
            f"the fit in {target} was made in {source.result['engine']}, so its contact numbers hold there by the formula; leave out "
            "--match-contact, which fits them to gradsim's law."
        )
    matches, left = match_contacts(source.scene, source.timestep, progress.stage) if match_contact else ([], [])
    factors = {match.pair: match.factors for match in matches}
    progress.stage(f"writing {to}")
    exported = exporters.export(source.scene, to, out, source.timestep, source.provenance, factors)
    record = {
        "schema": SCHEMA,
        "format": to,
        "files": [path.name for path in exported.files],
        "status": source.result.get("status"),
        "provenance": source.provenance,
        "timestep": source.timestep,
        "notes": [*source.notes, *exported.notes, *left],
        "versions": versions(),
    }
    if matches:
        record["contact"] = [match.row for match in matches]
        for match in matches:
            progress.stage(f"filming {match.pair[1]}")
            write_film(match, source.timestep, Path(out) / f"contact_{match.pair[1]}.webm")
    if samples:
        progress.stage(f"writing {samples} samples")
        record["samples"] = {"count": samples, "seed": seed, "file": "samples.csv"}
        _write_samples(Path(target), source, values, to, Path(out), clip, factors)
    write_json(Path(out) / "export.json", record)
    return Models(list(exported.files), tuple(record["notes"]), record)


def _with_posterior(result: Mapping) -> Mapping:
    """The result of a fit, whose posterior is drawn from."""
    if not result.get("unknowns"):
        raise InputError(
            "samples are drawn from the posterior of a fit, and the target is none; give a folder of `gradsim fit`."
        )
    return result


def _write_samples(
    target: Path,
    source: Source,
    values: Mapping[str, np.ndarray],
    to: str,
    out: Path,
    clip: int,
    factors: Mapping[tuple[str, str], Mapping[str, float]],
) -> None:
    """Write samples.csv, a row for each draw, and a model of each draw as `samples/000`, `samples/001`, ..."""
    scene, rows = load_scene(target, clip), list(zip(*values.values(), strict=True))
    several = len(source.result.get("clips") or ()) > 1
    digits = max(3, len(str(len(rows) - 1)))
    for k, row in enumerate(rows):
        numbers = {name: float(x) for name, x in zip(values, row, strict=True)}
        drawn_scene = with_values(scene, clip_values(scene, numbers, clip) if several else numbers)
        words = {
            "sample": f"{k} of {len(rows)}, drawn from the posterior; the estimates below are not those of this model"
        }
        folder = out / "samples" / f"{k:0{digits}}"
        exporters.export(drawn_scene, to, folder, source.timestep, words | source.provenance, factors)
    with atomic_write(out / "samples.csv", "w") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["sample", *values])
        writer.writerows([k, *map(float, row)] for k, row in enumerate(rows))


def open_source(target: Path, anyway: bool = False, clip: int = 1) -> Source:
    """Scene of a scene file, a library scene, or a run at its estimates.

    Raises:
        InputError: If the target is none of these, or a fit whose status needs `anyway`.
    """
    if not target.is_dir():
        scene = open_scene(target)
        return Source(scene, Model(scene).dt, {}, {"gradsim": versions()["gradsim"], "scene": scene.name})
    result = read_result(target)
    if not result:
        raise InputError(
            f"{target} holds no result.json; give a folder of `gradsim fit`, a scene file, or the name of a library scene."
        )
    status = result.get("status")
    if status in STATUSES_THAT_NEED_ANYWAY and not anyway:
        raise InputError(
            f"the run in {target} has the status `{status}`: {Status(status).message} Run it again with what is missing, "
            f"or add --anyway: the model then carries the word `{status}`."
        )
    scene = load_scene(target, clip)
    if result.get("command") == "control":
        return _controlled(target, scene, result)
    fitted = with_values(scene, estimates(target, scene, clip=clip))
    return Source(fitted, run_model(target, scene, clip).dt, result, _provenance(target, scene, result))


def _controlled(folder: Path, scene: Scene, result: Mapping) -> Source:
    """Scene with the controls of the best policy that are one value at the start; those over time are listed."""
    constant = constant_controls(folder, scene)
    varying = sorted(set(read_controls(folder)) - set(constant))
    texts = {"gradsim": versions()["gradsim"], "scene": scene.name}
    texts["status"] = f"{result['status']}. {(result.get('verdict') or {}).get('words', '')}".strip()
    texts |= {f"control {name}": f"{value}" for name, value in constant.items()}
    notes = tuple(
        f"`{name}`: its values over time, which are in controls.npz; apply them step by step." for name in varying
    )
    return Source(with_values(scene, constant), Model(scene).dt, result, texts, notes)


def _provenance(folder: Path, scene: Scene, result: Mapping) -> dict[str, str]:
    """Texts of a fit: versions, video, status, estimates and open directions."""
    texts = {"gradsim": str((result.get("versions") or {}).get("gradsim", versions()["gradsim"])), "scene": scene.name}
    if digest := video_digest(folder, result):
        texts["video sha256"] = digest
    if (status := result.get("status")) and result.get("unknowns"):  # the words of other commands are no verdict
        texts["status"] = f"{status}. {Status(status).message}"
    for name, u in (result.get("unknowns") or {}).items():
        if u.get("value") is None:
            continue
        text = f"{with_error(u['value'], u['std'])} {u['unit']}".strip()
        if u.get("interval95") and None not in u["interval95"] and u["std"]:
            low, high = (rounded(end, u["std"]) for end in u["interval95"])
            text += f", 95 %: {low} to {high}"
        texts[f"estimate {name}"] = text + ("" if u.get("identifiable") else ", not identifiable")
    for k, direction in enumerate(result.get("null_directions") or ()):
        texts[f"open direction {k + 1}"] = direction["explanation"]
    return texts


def video_digest(folder: Path, result: Mapping) -> str:
    """SHA-256 of the video of a fit: as its job recorded it, else of the file; "" where neither exists."""
    recorded = str(((read_record(folder) or {}).get("inputs") or {}).get("video") or "")
    if recorded.startswith("file "):
        return recorded.removeprefix("file ")
    path = Path(str(result.get("video") or ""))
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
