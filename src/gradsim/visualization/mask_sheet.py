"""Contact sheet of masks that cannot be right: frames of the video with the outline of the mask."""

from pathlib import Path

import numpy as np

from gradsim.runtime.atomic import atomic_path
from gradsim.video.mask_faults import MaskFaults
from gradsim.visualization.overlay_video import overlay
from gradsim.visualization.sheets import evenly, sheet

FILE = "masks.png"
MAX_FRAMES = 12  # frames on a sheet
COLUMNS = 4


def write_mask_sheet(path: Path, frames: np.ndarray, faults: MaskFaults) -> None:
    """Write the frames with a fault as a png, at most `MAX_FRAMES` of them, evenly chosen.

    Args:
        path: File to write.
        frames: Frames of the video (T, height, width, 3) uint8.
        faults: With one at least.
    """
    from PIL import Image

    faulty = faults.every_frame
    chosen = [faulty[k] for k in evenly(len(faulty), min(len(faulty), MAX_FRAMES))]
    images = overlay(frames[chosen], np.stack([faults.masks[k] for k in chosen]))
    labels = [f"{k}: {faults.of_frame(k)}" for k in chosen]
    with atomic_path(path) as draft:
        Image.fromarray(sheet(images, min(COLUMNS, len(images)), labels)).save(draft, format="PNG")
