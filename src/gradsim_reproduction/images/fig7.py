"""Mass from video with colour only, shading, and texture (the paper's Sec. 3.3.3 and Fig. 7).

Thrown bodies with a known push tumble over a ground; contact is known, mass is not. Truths and starts are uniform over the
same range, from different streams, and the same for all variants. The mean square of what pixels differ by in colour and
opacity goes down by Adam, or by steps with momentum, one rate for all variants; gradients are adjoints of renderer and
rollout, and one iteration is one film forward and one backward. The target comes from the renderer that fits it, and
from its steps: the figure compares variants, and proves nothing of accuracy (an inverse crime, which the paper commits
too).

Opacity is a fourth channel. Without it ("softras, rgb") a body of one colour has an outline without any gradient: the
softmax gives a pixel near a face that is far nearer than the background to that face, however little of it is covered.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.geometry import image_io
from gradsim.identification.solvers.gradient_descent import OPTIMISERS
from gradsim.losses import mse
from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim.scene import Scene
from gradsim_reproduction.images import fig7_plots
from gradsim_reproduction.images.fig7_plots import NAMES, TITLES
from gradsim_reproduction.rigid.joint_scenes import case
from gradsim_reproduction.runner import Outcome, Run, experiment, figure
from gradsim_reproduction.tables import write_table

VARIANTS = ("colour", "shading", "texture")
VIEWS = {"softras": ("softras", 4), "aa": ("aa", 4), "softras, rgb": ("softras", 3)}  # rasteriser, channels
SHAPES = ("box", "sphere", "cylinder", "cone", "capsule", "torus")
MASS = (2.0, 12.0)  # [kg] of truths and starts
OBJECTS, STARTS, ITERATIONS = 12, 4, 100
QUICK = {"objects": 2, "starts": 2, "iterations": 25}
FRAMES = 20  # two thirds of a second: flight, touch-down, tumbling
KINDS = (("softras", "adam"), ("aa", "adam"), ("softras, rgb", "adam"), ("softras", "sgd"), ("aa", "sgd"))
RATES = {"adam": 0.05, "sgd": 1.0}  # per step of the logarithm of the mass; sgd has a momentum of 0.9
CLOSE = 0.01  # relative error of a mass that is found
TEXELS, WAVE = 64, 5.0  # edge of a texture, and its waves along an edge
WORDS = (
    "Means over objects and starts in the end; iterations are medians over those starts that every variant brings home. The "
    "paper's Fig. 7 has curves without numbers."
)


@experiment("fig7", "Mass with colour only, shading, texture")
def fig7(run: Run) -> Outcome:
    """Descend from videos of each variant; writes table.md, descents.jsonl, textures and plots.

    Quick: two objects, two starts, 25 iterations, exact coverage and Adam only.
    """
    objects, starts, iterations = QUICK.values() if run.quick else (OBJECTS, STARTS, ITERATIONS)
    settings = {"starts": starts, "iterations": iterations}
    ledger, records = run.ledger("descents.jsonl", **settings), []
    kinds = [("aa", "adam")] if run.quick else KINDS
    scenes = [thrown(number, run.seed, run.out) for number in range(objects)]
    for view, optimiser in kinds:
        for number, scene in enumerate(scenes):
            for variant in VARIANTS:
                how = {"view": view, "optimiser": optimiser, "number": number, "variant": variant}
                key = f"{view} {optimiser} {number} {variant}"
                records.append(ledger.once(key, descend, scene, number, how, run.seed, starts, iterations))
    truths = [drawn_mass(number, run.seed, "truth", 1) for number in range(objects)]
    result = {**settings, "pictures": fig7_plots.draw(run.out, records, scenes, truths)}
    result["records"] = [{**r, "errors": r["errors"][-1], "losses": r["losses"][-1]} for r in records]
    figures = summary(records)
    result["table"] = write_table(run.out, "Fig. 7: relative error of the mass", rows(figures, kinds), WORDS)
    return result, figures


def thrown(number: int, seed: int, folder: Path) -> Scene:
    """The `number`-th scene: that of `joint_scenes`, with a shiny, painted body; its texture goes into the folder."""
    scene = case("continuous", SHAPES[number % len(SHAPES)], number, seed, folder / "meshes").scene
    path = folder / "textures" / f"{number}.png"
    painting = texture(np.random.default_rng([seed, number]))
    if not path.exists():
        image_io.write(path, painting)
    content = scene.model_dump(exclude_unset=True)
    content["timing"]["frames"] = FRAMES
    content["bodies"]["body"]["material"] = {"texture": str(path.resolve()), "specular": 0.4, "shininess": 16}
    content["bodies"]["body"]["colour"] = painting.mean((1, 2)).tolist()
    return Scene.model_validate(content)


def texture(rng: np.random.Generator) -> np.ndarray:
    """Blotches of all colours (3, TEXELS, TEXELS) in [0, 1]: white noise without its short waves, which goes on at edges."""
    k = np.fft.fftfreq(TEXELS, 1 / TEXELS)
    kept = np.exp(-(k[:, None] ** 2 + k**2) / WAVE**2)
    waves = np.fft.ifft2(np.fft.fft2(rng.standard_normal((3, TEXELS, TEXELS))) * kept).real
    return 0.5 + 0.45 * np.tanh(2 * waves / waves.std((1, 2), keepdims=True))


def drawn_mass(number: int, seed: int, stream: str, count: int) -> Tensor:
    """Masses (count,) [kg] of a scene, from the stream of truths or that of starts."""
    rng = np.random.default_rng([seed, number, ("truth", "start").index(stream)])
    return torch.tensor(rng.uniform(*MASS, count))


def descend(scene: Scene, number: int, how: dict, seed: int, starts: int, iterations: int) -> dict:
    """Masses from one film: relative errors and losses (iterations + 1, starts), beside the truth.

    Args:
        scene: What is filmed.
        number: Its number, for truth and starts.
        how: View, variant and optimiser.
        seed: As above.
        starts: How many.
        iterations: How many.
    """
    model, (rasterizer, channels) = Model(scene), VIEWS[how["view"]]
    render = Renderer.of(scene, rasterizer, shading=Shading.paper(how["variant"]))

    def film(mass: Tensor) -> Tensor:
        """Colour, and opacity if asked for (worlds, frames, channels, height, width)."""
        seen = render.picture(model.rollout({"body.mass": mass}).surface)
        return torch.cat([seen.rgb, seen.alpha[:, :, None]], 2)[:, :, :channels]

    truth = drawn_mass(number, seed, "truth", 1)
    with torch.no_grad():
        target = film(truth)[0]
    u = drawn_mass(number, seed, "start", starts).log().requires_grad_()
    search, errors, losses = OPTIMISERS[how["optimiser"]]([u], RATES[how["optimiser"]]), [], []
    for _ in range(iterations + 1):
        loss = mse(film(u.exp()), target)
        errors.append((u.detach().exp() / truth - 1).abs().tolist())
        losses.append(loss.tolist())
        search.zero_grad()
        loss.sum().backward()
        search.step()
        with torch.no_grad():
            u.clamp_(math.log(MASS[0]), math.log(MASS[1]))
    return {**how, "truth": truth.item(), "errors": errors, "losses": losses}


def curves(records: list[dict], variant: str) -> np.ndarray:
    """Relative errors (objects, iterations + 1, starts) of a variant."""
    return np.array([r["errors"] for r in records if r["variant"] == variant])


def settled(errors: np.ndarray) -> np.ndarray:
    """After how many iterations errors (objects, iterations + 1, starts) are small and stay so; infinite if never."""
    count = np.logical_and.accumulate(errors[:, ::-1] < CLOSE, 1).sum(1)  # from the end
    return np.where(count > 0, errors.shape[1] - count, np.inf)


def summary(records: list[dict]) -> dict[str, dict]:
    """Final errors, shares that are found, and how fast, from starts that succeed with every variant that ever does."""
    figures = {}
    for kind in dict.fromkeys((r["view"], r["optimiser"]) for r in records):
        own = [r for r in records if (r["view"], r["optimiser"]) == kind]
        errors = {variant: curves(own, variant) for variant in VARIANTS}
        after = {variant: settled(e) for variant, e in errors.items()}
        everywhere = np.all([found for a in after.values() if (found := np.isfinite(a)).any()], 0)
        for variant in VARIANTS:
            final, name = errors[variant][:, -1], f"{variant} ({', '.join(kind)})"
            ever = np.isfinite(after[variant]).any() and everywhere.any()
            speed = float(np.median(after[variant][everywhere])) if ever else math.nan
            figures |= {
                f"mass_error_{name}": figure(float(final.mean())),
                f"mass_error_median_{name}": figure(float(np.median(final))),
                f"found_{name}": figure(float(np.isfinite(after[variant]).mean())),
                f"iterations_to_1_percent_{name}": figure(speed),
            }
    return figures


def rows(figures: Mapping[str, Mapping], kinds: Sequence[tuple[str, str]]) -> list[dict]:
    """Of the table: a variant by a renderer and an optimiser."""
    table = []
    for view, optimiser in kinds:
        for variant in VARIANTS:
            error, found, after = (
                figures[f"{key}_{variant} ({view}, {optimiser})"]["value"]
                for key in ("mass_error", "found", "iterations_to_1_percent")
            )
            note = f"{100 * found:.0f} % within 1 %" + (
                f", after {after:.0f} iterations" if math.isfinite(after) else ""
            )
            name = f"{TITLES[view]}, {TITLES[optimiser]}: {NAMES[variant]}"
            table.append({"name": name, "paper": None, "ours": error, "note": note})
    return table
