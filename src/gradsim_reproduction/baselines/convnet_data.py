"""Films of samples with what is to be told from them, for the ConvNet."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradsim.dataset import Sample, sample
from gradsim.dataset.render import film
from gradsim.identification.unknowns import Unknown
from gradsim.runtime.atomic import atomic_path

SIZE = 64  # [px] of the pictures (paper, H.2)


class Clips:
    """Films of the data set's rigid samples and their true parameters; each film is made once and kept.

    Args:
        folder: Gets a file for each film.
        numbers: Of the samples.
        seed: Of the data set.
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
        """Of the samples: films and networks of others are not gone on with."""
        told = [(s.scene.model_dump_json(), sorted(s.truth.items())) for s in self.samples.values()]
        return hashlib.sha256(repr(told).encode()).hexdigest()[:12]

    def films(self, numbers: Sequence[int]) -> Tensor:
        """Bytes (n, 60, 64, 64, 3)."""
        return torch.stack([torch.tensor(self._film(k)) for k in numbers])

    def labels(self, numbers: Sequence[int]) -> Tensor:
        """True parameters (n, 5), each between -1 and 1 over its range: in SI units k_e would be all of the loss."""
        truths = [self.samples[k].truth for k in numbers]
        return (torch.tensor([[t[name] for name in self.names] for t in truths]) - self._middle) / self._half

    def values(self, labels: Tensor) -> list[dict[str, float]]:
        """Parameters by name from labels (n, 5), in SI units; beyond their ranges where the labels are."""
        rows = (labels * self._half + self._middle).tolist()
        return [dict(zip(self.names, row, strict=True)) for row in rows]

    def _film(self, number: int) -> np.ndarray:
        path = self.folder / f"{number:05d}.npz"
        if not path.exists():
            frames = film(self.samples[number], (SIZE,)).frames[SIZE]
            with atomic_path(path) as draft:
                np.savez_compressed(draft, frames=frames)
        with np.load(path) as kept:
            return kept["frames"]
