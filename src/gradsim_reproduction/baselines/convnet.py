"""`gradsim reproduce convnet`: the network of the paper's H.2, which its tables call ConvLSTM, on the data set.

It sees the videos of 800 training samples, and predicts the five parameters of 200 others. No pretrained backbone
comes with the library: it is trained from scratch, for as many epochs as a CPU affords, or read from a file.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from gradsim.app.figures import figure
from gradsim.dataset import test_numbers
from gradsim.errors import InputError
from gradsim.runtime.progress import Progress
from gradsim_reproduction.baselines.convnet_net import ConvNet
from gradsim_reproduction.baselines.convnet_training import Clips, Schedule, predict, train
from gradsim_reproduction.baselines.rows import TRAINING, cached_rows, row
from gradsim_reproduction.plotting import BLUE, GREY, ORANGE, new_figure, write_figures
from gradsim_reproduction.runner import Outcome, Run, experiment
from gradsim_reproduction.tables import write_table

TEST = 200  # samples for testing among the first 1000 (paper, G)
QUICK = {"train": 12, "test": 6}
WHOLE, EPOCHS = 1, 25  # epochs of the whole network, and with those of its head alone; the paper: 100 (H.2)
WHOLE_QUICK, EPOCHS_QUICK = 1, 10
PAPER = {"mass": 0.029, "stiffness": 0.14, "damping": 0.14, "friction_stiffness": 0.17, "friction": 0.096}  # Table 2
TABLE1 = {"mass_rel_err": 0.0094, "mass_abs_err": 0.1347}  # paper, Table 1


@experiment("convnet", "ConvNet (ConvLSTM of the paper's tables)")
def convnet(run: Run, epochs: int | None = None, weights: Path | None = None) -> Outcome:
    """Train the network and predict; writes table.md, the curves, videos, and checkpoint.pt to resume from.

    Args:
        run: Quick: 12 videos for training and 6 for testing.
        epochs: Epochs of the whole network; None: 1, or 0 with `weights`. Only its head is trained for the rest of 25.
        weights: State dictionary of `transformers.EfficientNetModel` to start from.

    Raises:
        InputError: If `transformers` is not installed, the weights are of another network, or the folder holds a
            network that was trained with other settings.
    """
    if epochs is not None and epochs < 0:
        raise InputError(f"epochs: got {epochs}; expected at least 0.")
    whole_epochs, total = (WHOLE_QUICK, EPOCHS_QUICK) if run.quick else (WHOLE, EPOCHS)
    whole_epochs = epochs if epochs is not None else 0 if weights else whole_epochs
    schedule = Schedule(whole_epochs, max(0, total - whole_epochs))
    net, numbers = network(run.seed, weights), split_numbers(run.quick)
    clips = Clips(run.out / "videos", [*numbers["train"], *numbers["test"]], run.seed)
    digest = hashlib.sha256(Path(weights).read_bytes()).hexdigest()[:12] if weights else None
    settings = {"schedule": asdict(schedule), "weights": digest, "begun": fingerprint(net), "data": clips.digest}
    ledger = run.ledger("finished.jsonl", **settings)
    trained = ledger.once("network", _trained, net, clips, numbers, schedule, run.out, run.seed, run.progress)
    figures = summary(trained["rows"], trained["curves"])
    notes = _notes(schedule, numbers, weights)
    result = {
        **trained,
        "table": write_table(run.out, "Tables 1 and 2: ConvNet", _lines(figures), notes),
        "images": draw(run.out, trained["curves"], trained["rows"]),
        "schedule": asdict(schedule),
    }
    return result, figures


def rows(
    numbers: Sequence[int],
    seed: int,
    out: Path,
    progress: Progress | None = None,
    quick: bool = False,
    unknowns: Sequence[str] = ("body.mass",),
) -> list[dict]:
    """Predictions of the network for test samples; see `ROWS`. One network predicts all five parameters."""
    records = cached_rows("convnet", lambda folder: convnet(folder, quick, seed, progress), numbers, seed, out, quick)
    for one in records:
        one.update({key: {name: one[key][name] for name in unknowns} for key in ("truth", "values")})
    return records


def network(seed: int, weights: Path | None = None) -> ConvNet:
    """The network before training, the same for the same seed.

    Raises:
        InputError: If the weights are of another one.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = ConvNet(outputs=len(PAPER))
    if weights:
        net.load_backbone(Path(weights))
    return net


def fingerprint(net: torch.nn.Module) -> str:
    """Twelve digits of the weights: two networks that begin otherwise are not each other's."""
    digest = hashlib.sha256()
    for name, weight in net.state_dict().items():
        digest.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode() + weight.numpy(force=True).tobytes())
    return digest.hexdigest()[:12]


def split_numbers(quick: bool) -> dict[str, list[int]]:
    """Numbers of the samples for "train" and for "test": the paper's 800 and 200, or a few."""
    test = test_numbers(TEST)
    both = {"train": sorted(set(range(TRAINING)) - set(test)), "test": test}
    return {split: part[: QUICK[split]] if quick else part for split, part in both.items()}


def _trained(net, clips, numbers, schedule, out, seed, progress) -> dict:
    """Train and predict: curves, rows of the test samples, and CPU time [s]."""
    curves = train(net, clips, numbers, schedule, out / "checkpoint.pt", seed, progress)
    values = clips.values(predict(net, clips, numbers["test"]))
    records = [row(clips.samples[k], value) for k, value in zip(numbers["test"], values, strict=True)]
    return {"curves": curves, "rows": records, "cpu_seconds": sum(epoch["cpu_seconds"] for epoch in curves)}


def summary(records: Sequence[dict], curves: Sequence[dict]) -> dict[str, dict]:
    """Errors over the test samples: means as in the paper, medians, and the losses (1/3 is that of the middle)."""
    mass = np.array([r["values"]["body.mass"] - r["truth"]["body.mass"] for r in records])
    figures = {"mass_abs_err": figure(float(np.abs(mass).mean()), paper=TABLE1["mass_abs_err"])}
    for name in records[0]["truth"]:
        key = name.rpartition(".")[2]
        errors = np.array([abs(r["values"][name] / r["truth"][name] - 1) for r in records])
        figures[f"{key}_rel_err"] = figure(float(errors.mean()), paper=PAPER[key])
        figures[f"{key}_rel_err_median"] = figure(float(np.median(errors)))
    last = curves[-1] if curves else {"train": float("nan"), "test": float("nan")}
    figures["loss_train"], figures["loss_test"] = figure(last["train"]), figure(last["test"])
    figures["loss_test_least"] = figure(min([c["test"] for c in curves], default=float("nan")))
    figures["epochs_of_the_whole"] = figure(sum(c["whole"] for c in curves))
    figures["epochs_of_the_head"] = figure(sum(not c["whole"] for c in curves))
    return figures


def _lines(figures: dict[str, dict]) -> list[dict]:
    """Lines of the table."""
    both = (("mean relative error", "mass_rel_err"), ("mean error [kg]", "mass_abs_err"))
    lines = [{"name": f"Table 1, {name}", "paper": TABLE1[key], "ours": figures[key]["value"]} for name, key in both]
    for quantity, paper in PAPER.items():
        value = figures[f"{quantity}_rel_err"]["value"]
        lines.append({"name": f"Table 2, {quantity.replace('_', ' ')}", "paper": paper, "ours": value})
    return lines


def _notes(schedule: Schedule, numbers: dict[str, list[int]], weights: Path | None) -> str:
    origin = "given weights" if weights else "scratch"
    return (
        f"Backbone from {origin}; epochs: {schedule.whole_epochs} of the whole network, {schedule.head_epochs} of its head; "
        f"{len(numbers['train'])} films; means over {len(numbers['test'])} others. The paper: a pretrained one, 100 epochs."
    )


MIDDLE = 1 / 3  # mean square of a label, uniform in [-1, 1]: the loss of the middle of every range


def draw(out: Path, curves: Sequence[dict], rows: Sequence[dict]) -> list[dict]:
    """Write the plots; returns their entries for `result.json`."""
    caption = (
        "Labels are parameters scaled to [-1, 1] over their ranges. The backbone is frozen after the shaded epochs."
    )
    return write_figures(
        out, {"convnet": (lambda: _training(curves, rows), "Training of the ConvNet, and its masses", caption)}
    )


def _training(curves: Sequence[dict], rows: Sequence[dict]) -> Figure:
    figure = new_figure(8.0, 3.2)
    left, right = figure.subplots(1, 2)
    epochs = np.arange(1, len(curves) + 1)
    for key, label, color in (("train", "training", BLUE), ("test", "test", ORANGE)):
        left.plot(epochs, [c[key] for c in curves], color=color, label=label, marker="." * (len(curves) < 30))
    left.axhline(MIDDLE, color=GREY, linestyle=":", label="middle of the ranges")
    left.axvspan(0.5, 0.5 + sum(c["whole"] for c in curves), color="#e5e7eb", label="whole network")
    left.set(xlabel="epoch", ylabel="mean square of labels", ylim=(0, None))
    left.legend()
    truth, predicted = (np.array([r[key]["body.mass"] for r in rows]) for key in ("truth", "values"))
    right.plot(truth, predicted, ".", color=ORANGE)
    ends = [truth.min(), truth.max()]
    right.plot(ends, ends, color=GREY, linestyle=":")
    right.set(xlabel="true mass [kg]", ylabel="predicted [kg]", title="test samples")
    return figure
