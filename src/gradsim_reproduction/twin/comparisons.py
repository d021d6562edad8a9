"""Exported models compared with their scenes: round trips, motion without contact, and drops."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from gradsim.identification.engines import EngineModel
from gradsim.identification.engines.contact_match import landing_of, match_contacts
from gradsim.identification.engines.mujoco import MuJoCo
from gradsim.physics.model import Model
from gradsim.runtime.optional import require_extra
from gradsim.scene import Scene, exporters
from gradsim.scene.exporters.build import twin_of
from gradsim.scene.exporters.export import time_step
from gradsim.scene.exporters.links import at_zero
from gradsim.scene.exporters.twin import Twin
from gradsim.scene.importers.newton import load
from gradsim_reproduction.twin.scenes import chain, drop, free_body

STEPS = (16, 32, 64)  # per frame, at which motions are compared
FINER = 4  # times the frames of a drop, between which tops of bounces and rests would be missed
STILL = 0.02  # distance from its last place [m] within which a body has settled
DROP_LAWS = ("paper", "continuous")
IN_MUJOCO = ("mjcf", "urdf")  # formats that MuJoCo reads, too
URDF_KINDS = ("revolute", "prismatic")


def round_trip(job: tuple[int, int]) -> dict:
    """Largest relative error of masses and inertias, and error of places [m], after export and import, by format."""
    number, seed = job
    record = {}
    for to in exporters.FORMATS:
        scene = free_body(number, seed) if number % 2 else chain(number, seed, URDF_KINDS)
        with tempfile.TemporaryDirectory() as folder:
            exported = exporters.export(scene, to, folder)
            back = load(exported.files[0], mesh_folder=Path(folder) / "back").scene
            record[to] = differences(twin_of(scene), twin_of(back))
            if to in IN_MUJOCO:
                record[f"{to}_in_mujoco"] = differences_in_mujoco(twin_of(scene), exported.files[0], Path(folder))
    return record


def differences(one: Twin, other: Twin) -> dict[str, float]:
    """Largest relative difference of masses and inertias, and difference of joints' places and axes, of links by name."""
    mass, inertia, place = [0.0], [0.0], [0.0]
    for name, link in one.links.items():
        again = other.links[name]
        mass.append(abs(again.mass / link.mass - 1))
        inertia.append(float(np.abs(again.inertia - link.inertia).max() / np.abs(link.inertia).max()))
    for child, joint in one.tree.items():
        again = other.tree[child]
        pairs = [(joint.parent_point, again.parent_point), (joint.child_point, again.child_point)]
        place += [float(np.abs(a - b).max()) for a, b in pairs]
        place.append(float(np.abs(joint.axis - again.axis).max()) if joint.kind != "ball" else 0.0)
    return {"mass": max(mass), "inertia": max(inertia), "place": max(place)}


def differences_in_mujoco(twin: Twin, path: Path, folder: Path) -> dict[str, float]:
    """The same for what MuJoCo reads, in double precision: places are of the centers of mass in the world at joint coordinates 0."""
    mujoco: Any = require_extra("mujoco", "this experiment", "engines")
    text = path.read_text(encoding="utf-8").replace('filename="meshes/', f'filename="{folder}/meshes/')
    text = text.replace("</robot>", '<mujoco><compiler strippath="false" fusestatic="false"/></mujoco></robot>')
    text = text.replace('meshdir="meshes"', f'meshdir="{folder}/meshes"')
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    still = at_zero(twin)
    mass, inertia, place = [0.0], [0.0], [0.0]
    for name, link in still.links.items():
        body = model.body(name)
        axes = Rotation.from_quat(body.iquat[[1, 2, 3, 0]]).as_matrix()
        mass.append(abs(float(body.mass[0]) / link.mass - 1))
        inertia.append(float(np.abs(axes * body.inertia @ axes.T - link.inertia).max() / np.abs(link.inertia).max()))
        if name in still.tree:  # URDF has no place for the start of a root
            place.append(float(np.abs(data.body(name).xipos - link.x).max()))
    return {"mass": max(mass), "inertia": max(inertia), "place": max(place)}


def motion(job: tuple[int, int]) -> dict:
    """Largest distance of centers of mass in MuJoCo from ours over 2 s [m], by integrator and steps per frame."""
    number, seed = job
    scene, record = (free_body if number % 2 else chain)(number, seed), {}
    for ours, theirs in (("rk4", "RK4"), ("semi-implicit", "Euler")):
        distances = []
        for steps in STEPS:
            timing = scene.timing.model_copy(update={"substeps": steps, "integrator": ours})
            at_step = scene.model_copy(update={"timing": timing})
            distances.append(_distance(at_step, theirs))
        record[ours] = distances
    return record


def _distance(scene: Scene, integrator: str) -> float:
    with torch.no_grad():
        ours = Model(scene).rollout()
    theirs = EngineModel(scene, MuJoCo(integrator=integrator)).rollout()
    return max((ours[body]["x"] - theirs[body]["x"]).norm(dim=-1).max().item() for body in ours.states)


def contact(job: tuple[int, int]) -> dict:
    """Lengths of slides, heights of first bounces, and times to settle, of a drop by each of two laws.

    Each as moved by gradsim, by MuJoCo with matched contact numbers, and by MuJoCo with those of the formula.
    """
    record: dict = {}
    for law in DROP_LAWS:
        scene = drop(*job, law)
        timing = scene.timing
        assert timing.substeps != "auto"
        frames = FINER * (timing.frames - 1) + 1
        fine = {"fps": FINER * timing.fps, "substeps": timing.substeps // FINER, "frames": frames}
        scene = scene.model_copy(update={"timing": timing.model_copy(update=fine)})
        with torch.no_grad():
            moves = [Model(scene).rollout()]
        matches, _ = match_contacts(scene, time_step(scene))
        for factors in ({match.pair: match.factors for match in matches}, None):
            moves.append(EngineModel(scene, MuJoCo(contact_factors=factors)).rollout())
        quantities = [_landing(one["box"]["x"][0].numpy(), scene.timing.fps) for one in moves]
        record[law] = {name: [one[name] for one in quantities] for name in quantities[0]}
    return record


def _landing(x: np.ndarray, fps: float) -> dict[str, float]:
    """Length of the path along the ground [m], highest center after the first low one over the last [m], time of rest [s]."""
    landing = landing_of(x, np.array([0.0, 0.0, 1.0]), fps, STILL)
    return {"slide": landing["travel"], "bounce": landing["bounce"], "settled": landing["settling"]}
