"""The audit of our gradients: adjoint against forward sensitivities, and tangents against wide secants, in both laws.

100 random scenes with contact over six shapes. The adjoint and the forward sensitivities are two programs; they agree to
rounding. Whether the derivative they agree on is the trend is another question: the paper's force jumps at touch, so its
motion is a sawtooth of every parameter, and the tangent is wrong by O(1) at every step size. The continuous law's
tangents approach the secants as the step shrinks.
"""

import numpy as np
import torch
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.numerics import rotation
from gradsim.physics.model import Model
from gradsim.physics.system import Values
from gradsim_reproduction.differentiability.gradients_plots import draw
from gradsim_reproduction.rigid import contact_scenes as contact
from gradsim_reproduction.rigid.contact_scenes import Scenes
from gradsim_reproduction.runner import Outcome, Run, experiment

SCENES = 100  # of each law
FINER = (1, 2, 4, 8, 16)  # steps per resolved step
WIDTHS = tuple(float(w) for w in np.logspace(-6, -1, 11))
WIDE = 1e-2  # half width of the secant used as the trend: many teeth at every step size
FRAMES = 24  # of the comparison of adjoint and forward sensitivities
LANDED = 10  # frames of the comparison with secants: the first contacts, before chaos makes every tangent long
STATES = ("x", "q", "v", "l")


@experiment("gradients", "Are the gradients right?")
def gradients(run: Run) -> Outcome:
    """Audit the gradients of random scenes with contact. Quick: 24 scenes per law and three step sizes."""
    count, finer = (24, FINER[:3]) if run.quick else (SCENES, FINER)
    shares = np.diff(np.linspace(0, count, len(contact.SHAPES) + 1).round().astype(int))
    laws: dict[str, dict] = {law: {"adjoint": {}, "difference": [], "step": [], "touched": 0} for law in contact.LAWS}
    for law, data in laws.items():
        rng = np.random.default_rng(run.seed)
        for shape, worlds in zip(contact.SHAPES, shares, strict=True):
            run.progress.stage(f"{law}: {worlds} scenes with a {shape}")
            scenes = contact.draw(shape, law, int(worlds), rng)
            data["adjoint"][shape] = adjoint_against_forward(scenes, rng)
            along = contact.directions(scenes, rng)
            data["difference"].append(torch.stack([tangent_against_secants(scenes, along, f) for f in finer]))
            data["step"].append(1 / (contact.FPS * scenes.substeps * np.array(finer)))
            data["touched"] += int(contact.touches_ground(scenes, scenes.model(), LANDED).sum())
        data["difference"] = torch.cat(data["difference"], 1)  # steps, worlds, widths
        data["step"] = np.exp(np.log(data["step"]).mean(0))
    run.progress.stage("plots")
    result = {"scenes": count, "images": draw(run.out, laws, WIDTHS, WIDE, sawteeth()), "finer": finer}
    result["quartiles"] = {law: _quartiles(data) for law, data in laws.items()}
    return result, _figures(laws, count)


def adjoint_against_forward(scenes: Scenes, rng: np.random.Generator) -> Tensor:
    """|⟨J v, w⟩ − ⟨v, Jᵀ w⟩| over the sum of the sizes of the terms of both, (parameters, worlds).

    v changes one parameter in a random direction, w weighs all states of all frames at random.
    """
    model = scenes.model()
    leaves = {name: v.clone().requires_grad_() for name, v in scenes.values.items()}
    states = model.rollout(leaves, FRAMES)["body"]
    weights = {name: torch.tensor(rng.standard_normal(states[name].shape)) for name in STATES}
    loss = torch.stack([(weights[name] * states[name]).sum() for name in STATES]).sum()
    slopes = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
    values = model.values(scenes.values)
    rows = []
    for name, v in contact.directions(scenes, rng).items():
        _, moving = model.tangent({n: x.detach().clone() for n, x in values.items()}, {name: v}, FRAMES)
        terms = torch.cat([(weights[s] * moving["body"][s]).flatten(1) for s in STATES], 1)
        other = (slopes[name] * v).reshape(len(v), -1)
        size = terms.abs().sum(1) + other.abs().sum(1)
        rows.append((terms.sum(1) - other.sum(1)).abs() / size.clamp(min=1e-300))
    return torch.stack(rows).detach()


def tangent_against_secants(scenes: Scenes, along: Values, finer: int) -> Tensor:
    """|secant − tangent| over the larger of both, of place and orientation at the last frame: (worlds, widths)."""
    model, worlds = scenes.model(finer), len(scenes.values["body.mass"])
    values = {n: x.detach().clone() for n, x in model.values(scenes.values).items()}
    with torch.no_grad():
        trajectory, moving = model.tangent(values, along, LANDED)
        q = trajectory["body"]["q"][:, -1]
        dx, dq = (moving["body"][s][:, -1] for s in "xq")
        size = 0.5 * values["body.scale"][:, None]
        tangent = torch.cat([dx / size, 2 * rotation.multiply(dq, rotation.conjugate(q))[:, :3]], 1)
        ends = torch.tensor([*WIDTHS, *(-w for w in WIDTHS)], dtype=torch.float64)
        lanes = {name: _shifted(values[name], along[name], ends) for name in along}
        both = model.rollout_unchecked(model.values(lanes), LANDED)["body"]
        ahead, behind = ({s: both[s][:, -1].unflatten(0, (2, -1))[k] for s in "xq"} for k in (0, 1))
        turn = rotation.logarithm(rotation.multiply(ahead["q"], rotation.conjugate(behind["q"])))
        apart = torch.cat([(ahead["x"] - behind["x"]) / size.repeat(len(WIDTHS), 1), turn], 1)
    secant = apart.reshape(len(WIDTHS), worlds, 6) / (2 * ends[: len(WIDTHS), None, None])
    larger = torch.maximum(secant.norm(dim=2), tangent.norm(dim=1))
    return ((secant - tangent).norm(dim=2) / larger).T


def _shifted(value: Tensor, along: Tensor, ends: Tensor) -> Tensor:
    """All worlds at the first end of a secant, then at the next: positive quantities by their logarithm."""
    steps = ends.reshape(-1, *[1] * value.ndim)
    shifted = value * (steps * along / value).exp() if value.ndim == 1 else value + steps * along
    return shifted.flatten(0, 1)


def sawteeth(points: int = 1201, reach: float = 0.04) -> dict[str, dict]:
    """A ball's height after a bounce against its height before, and the tangent in the middle: the example drawn.

    The ball of docs/theory/contact.md: 2 kg, 3 m/s, no gravity, 0.1 s, 1920 steps a second.
    """
    ball = {"shape": {"sphere": {"radius": 0.1}}, "mass": 2, "position": [0, 0, 0.22], "velocity": [0, 0, -3]}
    curves = {}
    for law, damping in (("continuous", {"dissipation": 0.3}), ("paper", {"damping": 200})):
        content = {
            "gravity": 0,
            "timing": {"fps": 10, "frames": 2, "substeps": 192, "integrator": "semi-implicit"},
            "bodies": {"ball": ball},
        }
        model = Model(contact.Scene.parse({**content, "ground": {"law": law, "stiffness": 1e5, **damping}}))
        shift = torch.linspace(-reach, reach, points, dtype=torch.float64)
        place = torch.tensor([0, 0, 0.22], dtype=torch.float64) + shift[:, None] * torch.tensor([0.0, 0, 1]).double()
        trajectory, moving = model.tangent(
            {
                n: v.detach().expand(points, *v.shape[1:]).clone()
                for n, v in model.values({"ball.position": place}).items()
            },
            {"ball.position": torch.tensor([[0.0, 0, 1]]).double().repeat(points, 1)},
            2,
        )
        height, slope = (t["ball"]["x"][:, -1, 2] for t in (trajectory, moving))
        curves[law] = {"shift": shift, "height": height.detach(), "slope": slope.detach()}
    return curves


def _quartiles(data: dict) -> dict:
    """Median and quartiles of the relative difference (steps, widths)."""
    quartiles = torch.quantile(data["difference"], torch.tensor([0.25, 0.5, 0.75]).double(), 1)
    names = ("lower", "median", "upper")
    return {"step": data["step"].tolist(), "width": WIDTHS} | dict(zip(names, quartiles.tolist(), strict=True))


def _figures(laws: dict, count: int) -> dict[str, dict]:
    worst = {law: max(d.max().item() for d in data["adjoint"].values()) for law, data in laws.items()}
    all_errors = torch.cat([d.flatten() for data in laws.values() for d in data["adjoint"].values()])
    k = int(np.abs(np.log(np.array(WIDTHS) / WIDE)).argmin())
    trend = {law: torch.quantile(data["difference"][:, :, k], 0.5, 1) for law, data in laws.items()}
    touches_ground = sum(data["touched"] for data in laws.values()) / (2 * count)
    least, last, first = trend["paper"].min().item(), trend["continuous"][-1].item(), trend["continuous"][0].item()
    return {
        "adjoint_vs_forward_worst": figure(max(worst.values()), goal=1e-9),
        "adjoint_vs_forward_median": figure(all_errors.median().item(), goal=1e-12),
        "continuous_off_at_smallest_step": figure(last, goal=0.1),
        "continuous_off_at_largest_step": figure(first),
        "paper_off_at_best_step": figure(least, goal=0.5, ok=least > 0.5),  # the claim: wrong at every step size
        "share_with_contact": figure(touches_ground, goal=0.95, ok=touches_ground >= 0.95),
    }
