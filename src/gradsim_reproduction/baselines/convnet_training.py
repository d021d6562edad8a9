"""Training of the ConvNet: first the whole network, then what follows the backbone, whose features are kept.

The paper trains on the features of a pretrained backbone for 100 epochs. Without weights, the backbone is trained for a
few epochs by the same loss, which on a CPU is nearly all of the cost; then the paper's part begins.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from gradsim.dataset import Sample, sample
from gradsim.dataset.render import render_sample
from gradsim.identification.unknowns import Unknown
from gradsim.runtime.atomic import atomic_path
from gradsim.runtime.checkpoint import CheckpointFile
from gradsim.runtime.progress import Progress
from gradsim_reproduction.baselines.convnet_net import ConvNet

SIZE = 64  # [px] of the images (paper, H.2)


class Clips:
    """Videos of the data set's rigid samples and their true parameters; each video is made once and kept.

    Args:
        folder: Gets a file for each video.
        numbers: Numbers of the samples.
        seed: Seed of the data set.
    """

    def __init__(self, folder: Path, numbers: Sequence[int], seed: int):
        self.folder = Path(folder)
        self.samples: dict[int, Sample] = {k: sample("rigid", k, seed) for k in numbers}
        unknowns = [Unknown.parse(text) for text in self.samples[numbers[0]].unknowns]
        self.names = [u.name for u in unknowns]
        low, high = (torch.tensor([getattr(u, end) for u in unknowns]) for end in ("low", "high"))
        self._middle, self._half = (low + high) / 2, (high - low) / 2

    @cached_property
    def digest(self) -> str:
        """Digest of the samples; cached videos and networks of other samples are not reused."""
        content = [(s.scene.model_dump_json(), sorted(s.truth.items())) for s in self.samples.values()]
        return hashlib.sha256(repr(content).encode()).hexdigest()[:12]

    def videos(self, numbers: Sequence[int]) -> Tensor:
        """Bytes (n, 60, 64, 64, 3)."""
        return torch.stack([torch.tensor(self._video(k)) for k in numbers])

    def labels(self, numbers: Sequence[int]) -> Tensor:
        """True parameters (n, 5), each between -1 and 1 over its range: in SI units k_e would be all of the loss."""
        truths = [self.samples[k].truth for k in numbers]
        return (torch.tensor([[t[name] for name in self.names] for t in truths]) - self._middle) / self._half

    def values(self, labels: Tensor) -> list[dict[str, float]]:
        """Parameters by name from labels (n, 5), in SI units; beyond their ranges where the labels are."""
        rows = (labels * self._half + self._middle).tolist()
        return [dict(zip(self.names, row, strict=True)) for row in rows]

    def _video(self, number: int) -> np.ndarray:
        path = self.folder / f"{number:05d}.npz"
        if not path.exists():
            frames = render_sample(self.samples[number], (SIZE,)).frames[SIZE]
            with atomic_path(path) as draft:
                np.savez_compressed(draft, frames=frames)
        with np.load(path) as archive:
            return archive["frames"]


OFTEN = 60.0  # [s] after an epoch that ends so long after the last checkpoint, another is written
CHUNK = 4  # videos at a time where nothing is learnt


@dataclass(frozen=True)
class Schedule:
    """Length and rate of the training.

    Attributes:
        whole_epochs: Whole epochs of the whole network.
        head_epochs: After these, of all but the backbone.
        learnt: Frames of a video, drawn anew each time, that the backbone's gradient comes from, which is most of the time.
        batch: Videos in a step.
        rate: Rate of Adam (paper, H.2).
    """

    whole_epochs: int = 1
    head_epochs: int = 24
    learnt: int = 6
    batch: int = 8
    rate: float = 1e-4

    @property
    def epochs(self) -> int:
        return self.whole_epochs + self.head_epochs


def train(
    net: ConvNet,
    clips: Clips,
    numbers: Mapping[str, Sequence[int]],
    schedule: Schedule,
    checkpoint: Path,
    seed: int,
    progress: Progress,
) -> list[dict]:
    """Train; where the checkpoint is there, resume after it, to the same weights bit for bit.

    Args:
        net: The network, which is changed.
        clips: The videos.
        numbers: Numbers of the samples for "train" and for "test".
        schedule: Length and rate of the training.
        checkpoint: A file.
        seed: Seed of the order of videos and of what the backbone drops.
        progress: Receives the losses.

    Returns:
        After each epoch: `train` (mean over its steps) and `test`, mean squares of labels; `whole`, whether the
        backbone was trained; and `cpu_seconds`.
    """
    labels = {split: clips.labels(part) for split, part in numbers.items()}
    adam = torch.optim.Adam(net.parameters(), schedule.rate, fused=True)  # five times as fast here
    store = CheckpointFile(checkpoint)
    curves = _resume(store, net, adam)
    saved, features = time.monotonic(), {}
    for epoch in range(len(curves), schedule.epochs):
        begun = time.process_time()
        alone = epoch >= schedule.whole_epochs
        if alone and not features:
            progress.stage("ConvNet: features of all films")
            features = {split: compute_features(net, clips, part) for split, part in numbers.items()}
        progress.stage(f"ConvNet: epoch {epoch + 1} of {schedule.epochs}")
        net.backbone.requires_grad_(not alone).train(not alone)
        order = torch.randperm(len(labels["train"]), generator=torch.Generator().manual_seed(1000 * seed + epoch))
        losses = []
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 * seed + epoch)
            for k, rows in enumerate(order.split(schedule.batch)):
                if alone:
                    inputs = features["train"][rows]
                else:
                    videos = clips.videos([numbers["train"][r] for r in rows.tolist()])
                    inputs = net.features(videos, torch.randperm(videos.shape[1])[: schedule.learnt])
                labels_found = net.head(inputs)
                loss = mse_loss(labels_found, labels["train"][rows])
                adam.zero_grad()
                loss.backward()
                adam.step()
                losses.append(loss.item())
                progress.fraction(k + 1, -(-len(order) // schedule.batch))
        labels_found = predict(net, clips, numbers["test"], features.get("test"))
        test = mse_loss(labels_found, labels["test"]).item()
        spent = time.process_time() - begun
        curves.append({"train": sum(losses) / len(losses), "test": test, "whole": not alone, "cpu_seconds": spent})
        progress.update(epoch + 1, curves[-1]["train"], {"test": (test, float("nan"))})
        if time.monotonic() - saved > OFTEN or epoch + 1 in (schedule.whole_epochs, schedule.epochs):
            _save(store, net, adam, curves)
            saved = time.monotonic()
    return curves


def predict(net: ConvNet, clips: Clips, numbers: Sequence[int], features: Tensor | None = None) -> Tensor:
    """Labels (n, outputs) that the network gives to samples; from their features, if these are there."""
    if features is None:
        return _in_chunks(net, numbers, lambda part: net(clips.videos(part)))
    return _in_chunks(net, range(len(features)), lambda part: net.head(features[list(part)]))


def compute_features(net: ConvNet, clips: Clips, numbers: Sequence[int]) -> Tensor:
    """Features (n, frames, 1280, 2, 2) of samples, in the precision that they are computed in."""
    return _in_chunks(net, numbers, lambda part: net.features(clips.videos(part)))


@torch.no_grad()
def _in_chunks(net: ConvNet, numbers: Sequence[int], function: Callable[[Sequence[int]], Tensor]) -> Tensor:
    net.eval()
    outputs = [function(numbers[k : k + CHUNK]) for k in range(0, len(numbers), CHUNK)]
    net.train()
    return torch.cat(outputs)


def _save(checkpoint: CheckpointFile, net: ConvNet, adam: torch.optim.Adam, curves: list[dict]) -> None:
    checkpoint.save("convnet", {"net": net.state_dict(), "adam": adam.state_dict(), "curves": curves})


def _resume(checkpoint: CheckpointFile, net: ConvNet, adam: torch.optim.Adam) -> list[dict]:
    state = checkpoint.load("convnet")
    if state is None:
        return []
    net.load_state_dict(state["net"])
    adam.load_state_dict(state["adam"])
    return state["curves"]
