"""The mass and the start velocity of every vertex, from textured video of three cameras or from vertices in 3-D.

Truths and the start are drawn for each vertex on its own, from the ranges of `soft/scenes.py`. Inner vertices of a solid
are seen by no camera, and many combinations of masses move the body alike: so next to the error over all vertices, which
is the paper's measure, stands that on the subspace whose bound is below 1 % at σ = 1/255, with its dimension.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from gradsim.app.figures import figure
from gradsim.geometry import image_io
from gradsim.identification.fields.api import identify_fields
from gradsim.identification.fields.fields import Field, FieldSpace
from gradsim.identification.observation.from_video import NOMINAL_NOISE
from gradsim.identification.observation.images import Images
from gradsim.identification.observation.multi_view import MultiView
from gradsim.identification.observation.vertices import Vertices
from gradsim.identification.synthetic import TRUTH_STREAM, own_steps
from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.runtime.progress import Progress
from gradsim.scene.soft_body import Soft
from gradsim_reproduction.soft.scenes import RANGES, Instance

ASKED = {"beam": "particle_mass", "ball": "particle_mass", "cloth": "particle_velocity"}
QUANTITIES = tuple(dict.fromkeys(ASKED.values()))
MODES = ("video", "states")
MARK = 1e-4  # [m] nominal noise of a vertex that is known in 3-D, as by motion capture
SOFT = {  # of the solids whose masses are fitted: they bend, twist and wobble
    "mu": 2e3,
    "lam": 4e3,
    "damping": 1.0,
    "density": 900.0,
    "velocity": [0.3, 0.5, 0.4],
    "angular_velocity": [5.0, 3.0, 4.0],
}
FAST = {"fps": 50, "frames": 14, "substeps": "auto", "integrator": "semi-implicit"}
PAPER = {  # mean absolute error over all particles
    ("particle_mass", "video"): 0.048,
    ("particle_mass", "states"): 0.032,
    ("particle_velocity", "video"): 0.026,
    ("particle_velocity", "states"): 0.127,
}
GOAL = 1e-3
TEXTURE = 48  # pixels across
ROOM, FALL = 1.3, 0.2  # of the body's size: what cameras see of its surroundings, and how far below its start they look


def plan(number: int, kind: str) -> Iterator[tuple[int, str, str]]:
    """Number, quantity and sight of the fits of an instance."""
    for mode in MODES:
        yield number, ASKED[kind], mode


def fit(one: Instance, quantity: str, mode: str, seed: int, progress: Progress, folder: Path) -> dict:
    """Fit the field of one instance; its result and the truth."""
    scene = own_steps(_textured(one, folder))
    field = _field(quantity)
    model = Model(scene, substeps=_substeps(scene, field))
    space = FieldSpace(model, [field])
    truth = space.values(space.draw(np.random.default_rng(TRUTH_STREAM + seed), 1))
    with torch.no_grad():
        trajectory = model.rollout(truth)
    if mode == "states":
        observation = Vertices("body", trajectory["body"]["x"][0], MARK)
    else:
        observation = MultiView({camera: _video(scene, trajectory, camera) for camera in scene.views})
    report = lambda entry: progress.update(entry["iterations"], entry["cost"], {})
    estimate = identify_fields(scene, [field], observation, seed=seed, report=report, model=model)
    estimate = estimate.against({name: value[0].numpy() for name, value in truth.items()})
    assert estimate.errors is not None  # against a truth
    return {
        "status": estimate.status,
        "unknowns": estimate.unknowns,
        "rank": estimate.rank,
        "error": estimate.errors.subspace,
        "full_error": estimate.errors.full,
        "worst": estimate.errors.worst,
        "silent": estimate.null_directions,
        "cpu_seconds": estimate.cpu_seconds,
        "rollouts": estimate.rollouts,
    }


def _field(quantity: str) -> Field:
    if quantity == "particle_mass":
        low, high = RANGES["vertex_mass_factor"]
        return Field("body.vertex_mass_factor", low=low, high=high)
    low, high = RANGES["vertex_velocity"]
    return Field("body.vertex_velocity", scale=high, low=low, high=high)


def _substeps(scene, field: Field) -> int:
    """Steps that suit the whole range: the lightest vertices ask for the most."""
    model = Model(scene)
    if field.scale is not None:
        return model.substeps
    assert field.low is not None  # as of every field without a scale
    lightest = torch.full((1, *model.kinds[field.name].value.shape), field.low, dtype=torch.float64)
    return model.recommended_substeps(model.values({field.name: lightest}))


def _textured(one: Instance, folder: Path):
    """The scene with a coloured pattern on the body, and cameras a quarter turn around it and above."""
    path = folder / "texture.png"
    if not path.exists():
        coarse = torch.tensor(np.random.default_rng(0).random((1, 3, 8, 8)))
        fine = torch.nn.functional.interpolate(coarse, size=(TEXTURE, TEXTURE), mode="bicubic").clamp(0, 1)
        image_io.write(path, fine[0])
    content = one.scene.model_dump(mode="json", by_alias=True, exclude_none=True)
    content["timing"] = FAST
    if one.kind != "cloth":
        content["bodies"]["body"] |= SOFT
    content["bodies"]["body"]["material"] = {"texture": str(path.resolve())}
    content["camera"], *others = _cameras(one)
    content["cameras"] = {f"view{k}": camera for k, camera in enumerate(others)}
    return type(one.scene).parse(content)


def _cameras(one: Instance) -> list[dict]:
    """Three cameras that the body nearly fills: from where the instance has its own, a quarter turn on, and above."""
    body, look = one.scene.bodies["body"], one.scene.view().look_at
    assert isinstance(body, Soft) and look is not None and look.fov is not None  # as every scene of this experiment has
    rest = body.rest_vertices
    target = np.array(body.position) - [0, 0, FALL * np.ptp(rest, 0).max()]
    away = ROOM * np.linalg.norm(np.ptp(rest, 0)) / 2 / math.tan(look.fov / 2)
    x, y, z = (np.array(look.eye) - look.target) / math.dist(look.eye, look.target)
    eyes = [target + away * np.array(d) for d in ((x, y, z), (-y, x, z), (0.3, 0.1, 0.95))]
    size = list(one.scene.view().size)
    return [{"size": size, "look_at": {"eye": e.tolist(), "target": target.tolist(), "fov": look.fov}} for e in eyes]


def _video(scene, trajectory, camera: str) -> Images:
    """Images of a camera in double precision; nominal σ = 1/255."""
    renderer = Renderer.of(scene, camera=camera)
    with torch.no_grad():
        return Images(renderer(trajectory.scene_surface, trajectory.values)[0], NOMINAL_NOISE, renderer)


def summary(records: list[dict]) -> dict[str, dict]:
    """Medians by quantity and sight."""
    figures = {}
    for (quantity, mode), paper in PAPER.items():
        part = [r for r in records if (r["quantity"], r["sight"]) == (quantity, mode)]
        if not part:
            continue
        name = {"particle_mass": "particle_mass", "particle_velocity": "cloth_velocity_particle"}[quantity]
        label = name if mode == "video" else f"states_{name}"
        middle = lambda key, part=part: float(np.median([r[key] for r in part]))
        figures[f"{label}_median"] = figure(middle("error"), goal=GOAL if mode == "video" else None)
        figures[f"{label}_full_median"] = figure(middle("full_error"), paper=paper)
        figures[f"{label}_solved"] = figure(float(np.mean([r["error"] < GOAL for r in part])))
        figures[f"{label}_rank"] = figure(middle("rank"))
        figures[f"{label}_unknowns"] = figure(middle("unknowns"))
        figures[f"{label}_cpu_seconds"] = figure(middle("cpu_seconds"))
    return figures
