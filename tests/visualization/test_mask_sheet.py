"""The picture of masks that cannot be right."""

import numpy as np
from disc_clip import HEIGHT, WIDTH, clip
from PIL import Image

from gradsim.video.mask_faults import mask_faults
from gradsim.visualization.mask_sheet import COLUMNS, MAX_FRAMES, write_mask_sheet
from gradsim.visualization.overlay_video import EDGE, factor
from gradsim.visualization.sheets import sheet


def test_each_frame_with_a_fault_is_shown_with_the_outline_of_its_mask(tmp_path):
    frames, exact, _ = clip()
    masks = exact.copy()
    masks[4], masks[7] = 0, 0
    masks[7, 20:60, 30:90] = 1
    write_mask_sheet(tmp_path / "m.png", frames, mask_faults(masks))
    page, times = np.asarray(Image.open(tmp_path / "m.png")), factor(frames)
    height, width = sheet(np.zeros((2, HEIGHT * times, WIDTH * times, 3), np.uint8), 2, ["", ""]).shape[:2]
    assert page.shape == (height, width, 3)
    edge = (page == EDGE).all(-1)
    assert not edge[:, : width // 2].any()  # frame 4 has no mask
    assert edge[:, width // 2 :].sum() == 2 * times * (40 + 60)  # frame 7: a box, one pixel around it


def test_many_frames_are_thinned_out(tmp_path):
    frames, exact, _ = clip()
    write_mask_sheet(tmp_path / "m.png", frames, mask_faults(0 * exact))
    page, (height, width) = Image.open(tmp_path / "m.png"), (factor(frames) * n for n in (HEIGHT, WIDTH))
    assert COLUMNS * width < page.size[0] < (COLUMNS + 1) * width
    assert MAX_FRAMES / COLUMNS * height < page.size[1] < (MAX_FRAMES / COLUMNS + 1) * height and MAX_FRAMES < len(
        frames
    )
