"""Mass from video with colour only, shading, and texture (the paper's Sec. 3.3.3 and Fig. 7).

Thrown bodies with a known push tumble over a ground; contact is known, mass is not. Truths and starts are uniform over the
same range, from different streams, and the same for all variants. The mean square of what pixels differ by in colour and
opacity goes down by Adam, or by steps with momentum, one rate for all variants; gradients are adjoints of renderer and
rollout, and one iteration is one video forward and one backward. The target comes from the renderer that fits it, and
from its steps: the figure compares variants, and does not measure accuracy (an inverse crime, which the paper commits
too).

Opacity is a fourth channel. Without it ("softras, rgb") a body of one colour has an outline without any gradient: the
softmax gives a pixel near a face that is far nearer than the background to that face, however little of it is covered.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from torch import Tensor

from gradsim.app.figures import figure
from gradsim.geometry import image_io
from gradsim.identification.solvers.gradient_descent import OPTIMISERS
from gradsim.losses import mse
from gradsim.physics.model import Model
from gradsim.render.renderer import Renderer
from gradsim.render.shading.shading import Shading
from gradsim.scene import Scene
from gradsim_reproduction.plotting import BLUE, GREEN, ORANGE, new_figure, write_figures
from gradsim_reproduction.rigid.joint_scenes import case
from gradsim_reproduction.runner import Outcome, Run, experiment
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
    result = {**settings, "images": draw(run.out, records, scenes, truths)}
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
    """Blotches of all colours (3, TEXELS, TEXELS) in [0, 1]: low-pass white noise, periodic."""
    k = np.fft.fftfreq(TEXELS, 1 / TEXELS)
    lowpass = np.exp(-(k[:, None] ** 2 + k**2) / WAVE**2)
    waves = np.fft.ifft2(np.fft.fft2(rng.standard_normal((3, TEXELS, TEXELS))) * lowpass).real
    return 0.5 + 0.45 * np.tanh(2 * waves / waves.std((1, 2), keepdims=True))


def drawn_mass(number: int, seed: int, stream: str, count: int) -> Tensor:
    """Masses (count,) [kg] of a scene, from the stream of truths or that of starts."""
    rng = np.random.default_rng([seed, number, ("truth", "start").index(stream)])
    return torch.tensor(rng.uniform(*MASS, count))


def descend(scene: Scene, number: int, how: dict, seed: int, starts: int, iterations: int) -> dict:
    """Masses from one video: relative errors and losses (iterations + 1, starts), next to the truth.

    Args:
        scene: Scene of the video.
        number: Its number, for truth and starts.
        how: View, variant and optimiser.
        seed: As above.
        starts: How many.
        iterations: How many.
    """
    model, (rasterizer, channels) = Model(scene), VIEWS[how["view"]]
    render = Renderer.of(scene, rasterizer, shading=Shading.paper(how["variant"]))

    def video(mass: Tensor) -> Tensor:
        """Colour, and opacity with four channels (worlds, frames, channels, height, width)."""
        image = render.output(model.rollout({"body.mass": mass}).surface)
        return torch.cat([image.rgb, image.alpha[:, :, None]], 2)[:, :, :channels]

    truth = drawn_mass(number, seed, "truth", 1)
    with torch.no_grad():
        target = video(truth)[0]
    u = drawn_mass(number, seed, "start", starts).log().requires_grad_()
    search, errors, losses = OPTIMISERS[how["optimiser"]]([u], RATES[how["optimiser"]]), [], []
    for _ in range(iterations + 1):
        loss = mse(video(u.exp()), target)
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


def settling_iteration(errors: np.ndarray) -> np.ndarray:
    """After how many iterations errors (objects, iterations + 1, starts) are small and stay so; infinite if never."""
    count = np.logical_and.accumulate(errors[:, ::-1] < CLOSE, 1).sum(1)  # from the end
    return np.where(count > 0, errors.shape[1] - count, np.inf)


def summary(records: list[dict]) -> dict[str, dict]:
    """Final errors, shares that are found, and how fast, from starts that succeed with every variant that ever does."""
    figures = {}
    for kind in dict.fromkeys((r["view"], r["optimiser"]) for r in records):
        part = [r for r in records if (r["view"], r["optimiser"]) == kind]
        errors = {variant: curves(part, variant) for variant in VARIANTS}
        after = {variant: settling_iteration(e) for variant, e in errors.items()}
        everywhere = np.all([converged for a in after.values() if (converged := np.isfinite(a)).any()], 0)
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
    """Rows of the table: one per renderer, optimiser and variant."""
    table = []
    for view, optimiser in kinds:
        for variant in VARIANTS:
            error, share, after = (
                figures[f"{key}_{variant} ({view}, {optimiser})"]["value"]
                for key in ("mass_error", "found", "iterations_to_1_percent")
            )
            note = f"{100 * share:.0f} % within 1 %" + (
                f", after {after:.0f} iterations" if math.isfinite(after) else ""
            )
            name = f"{TITLES[view]}, {TITLES[optimiser]}: {NAMES[variant]}"
            table.append({"name": name, "paper": None, "ours": error, "note": note})
    return table


COLORS = {"colour": ORANGE, "shading": BLUE, "texture": GREEN}
NAMES = {"colour": "only colour", "shading": "shading", "texture": "texture"}
TITLES = {
    "softras": "SoftRas",
    "softras, rgb": "SoftRas without opacity",
    "aa": "exact coverage",
    "adam": "Adam",
    "sgd": "momentum",
}
SHOWN = 6  # objects on the sheet


def draw(out: Path, records: Sequence[dict], scenes: Sequence, truths: Sequence[Tensor]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    curve_text = "Mean over objects and starts; band: its standard error over objects. Inset: logarithmic."
    video_text = "At the true mass, every fourth frame, later ones stronger; by exact coverage."
    return write_figures(
        out,
        {
            "curves": (lambda: _curves(records), "Error of the mass", curve_text),
            "videos": (lambda: _videos(scenes[:SHOWN], truths), "Videos", video_text),
        },
    )


def _curves(records: Sequence[dict]) -> Figure:
    kinds = list(dict.fromkeys((r["view"], r["optimiser"]) for r in records))
    columns = min(3, len(kinds))
    figure = new_figure(8.6, 0.5 + 2.6 * -(-len(kinds) // columns))
    spots = figure.subplots(-(-len(kinds) // columns), columns, sharey=True, squeeze=False)
    for ax in spots.flat[len(kinds) :]:
        ax.axis("off")
    for ax, kind in zip(spots.flat, kinds, strict=False):
        inset = ax.inset_axes((0.5, 0.62, 0.48, 0.36))  # above all curves
        part = [r for r in records if (r["view"], r["optimiser"]) == kind]
        for variant, colour in COLORS.items():
            errors = np.array([r["errors"] for r in part if r["variant"] == variant]).mean(2)
            mean, spread = errors.mean(0), errors.std(0) / np.sqrt(max(1, len(errors) - 1))
            steps = np.arange(len(mean))
            ax.plot(steps, mean, color=colour, label=NAMES[variant])
            ax.fill_between(steps, mean - spread, mean + spread, color=colour, alpha=0.12, lw=0)
            inset.plot(steps, mean, color=colour, lw=1)
        inset.set_yscale("log")
        inset.yaxis.set_minor_formatter(NullFormatter())
        inset.tick_params(labelsize=7)
        ax.set_title(", ".join(TITLES[name] for name in kind), fontsize=9)
        ax.set_xlabel("iterations")
        ax.set_ylim(0, 1.3)
    for ax in spots[:, 0]:
        ax.set_ylabel("relative error of the mass")
    figure.legend(*spots[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _videos(scenes: Sequence, truths: Sequence[Tensor]) -> Figure:
    figure = new_figure(8.6, 1.1 * len(COLORS))
    spots = figure.subplots(len(COLORS), len(scenes), squeeze=False)
    for ax in spots.flat:
        ax.axis("off")
    for column, (scene, truth) in zip(spots.T, zip(scenes, truths, strict=False), strict=True):
        with torch.no_grad():
            surface = Model(scene).rollout({"body.mass": truth}).surface
            for ax, variant in zip(column, COLORS, strict=True):
                frames = Renderer.of(scene, shading=Shading.paper(variant)).output(surface)
                image, covered = _blended(frames.rgb[0, ::4], frames.alpha[0, ::4]), frames.alpha[0].amax(0) > 0
                rows, columns = (covered.any(k).nonzero()[:, 0].tolist() for k in (1, 0))
                ax.imshow(image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], interpolation="nearest")
    for row, variant in zip(spots, COLORS, strict=True):
        row[0].set_title(NAMES[variant], fontsize=8, loc="left")
    return figure


def _blended(rgb: Tensor, alpha: Tensor) -> np.ndarray:
    """Frames one over another (height, width, 3), early ones faint."""
    image = rgb[0] * 0 + 1
    for k, (colors, share) in enumerate(zip(rgb, alpha, strict=True)):
        strength = share * (0.3 + 0.7 * k / max(1, len(rgb) - 1))
        image = image + strength * (colors - image)
    return image.permute(1, 2, 0).clamp(0, 1).numpy()
