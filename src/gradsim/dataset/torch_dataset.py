"""PyTorch `Dataset` of frames and true parameters."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset

from gradsim.dataset.reader import DatasetReader
from gradsim.errors import InputError


class VideoDataset(Dataset[tuple[Tensor, Tensor]]):
    """Videos of a data set with their true parameters, for a `DataLoader` with any number of workers.

        videos = VideoDataset("D", size=64, split="train")
        frames, truth = videos[0]            # (60, 3, 64, 64) in [0, 1], and (5,) for videos.names
        loader = DataLoader(videos, batch_size=16, shuffle=True, num_workers=2)

    Args:
        folder: Folder made by `gradsim dataset generate`.
        size: Width and height of the images [px]; None: the smallest available.
        split: "train" (four of five), "test" (the last of every five: 200 of the first 1000), or "all".
        frames: Frames of each video; None: all.
        dtype: torch.float32 in [0, 1], or torch.uint8 as stored.
        kind: "frames", RGB (frames, 3, size, size); or "masks", (frames, 1, size, size), 1 where bodies are.
        count: Use only the first `count` videos of the split; None: all.

    Attributes:
        names: Names of the true parameters, in order.
        low, high: Ends of their uniform ranges (parameters,) float32 [SI units]; of all videos together, where ranges
            differ.
        numbers: Numbers of the videos in the data set, in order.
        labels: True parameters (videos, parameters) float32 [SI units].

    Raises:
        InputError: If the folder holds no data set, or not this size or split, or videos have different parameters.
    """

    def __init__(
        self,
        folder: str | Path,
        size: int | None = None,
        split: Literal["train", "test", "all"] = "all",
        frames: slice | Sequence[int] | None = None,
        dtype: torch.dtype = torch.float32,
        kind: Literal["frames", "masks"] = "frames",
        count: int | None = None,
    ):
        self.recordings = DatasetReader(folder)
        sizes = self.recordings.settings.sizes
        self.size = sizes[0] if size is None else size
        for name, value, known in (
            ("size", self.size, sizes),
            ("split", split, ("train", "test", "all")),
            ("dtype", dtype, (torch.float32, torch.uint8)),
            ("kind", kind, ("frames", "masks")),
        ):
            if value not in known:
                raise InputError(f"{name}: got {value!r}; expected {' or '.join(map(str, known))}.")
        self.which = slice(None) if frames is None else frames if isinstance(frames, slice) else list(frames)
        self.dtype, self.kind = dtype, kind
        first = next(iter(self.recordings.table(["unknowns"])), None)
        if first is None:
            raise InputError(f"{folder} has no finished videos; gradsim dataset verify lists what it has.")
        unknowns = lambda row: [text.rsplit(":", 2) for text in row["unknowns"]]  # as NAME:LOW:HIGH
        self.names = tuple(name for name, _, _ in unknowns(first))
        table = list(self.recordings.table(["number", "split", "unknowns", *self.names]))
        for row in table:
            if tuple(name for name, _, _ in unknowns(row)) != self.names:
                raise InputError(f"video {row['number']} of {folder} has other unknowns; read it with `DatasetReader`.")
        ends = torch.tensor([[[float(low), float(high)] for _, low, high in unknowns(row)] for row in table])
        self.low, self.high = ends[..., 0].amin(0), ends[..., 1].amax(0)
        rows = [row for row in table if split in ("all", row["split"])][:count]
        self.numbers = [row["number"] for row in rows]
        self.labels = torch.tensor([[row[name] for name in self.names] for row in rows]).reshape(-1, len(self.names))

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """Images (frames, channels, size, size) and true parameters (parameters,)."""
        read = self.recordings.frames if self.kind == "frames" else self.recordings.masks
        images = torch.from_numpy(read(self.numbers[index], self.size, self.which).copy())
        images = images.permute(0, 3, 1, 2) if self.kind == "frames" else images[:, None]
        if self.dtype == torch.float32:
            return images.float() / 255, self.labels[index]
        return images.contiguous(), self.labels[index]
