"""Lossy h264 as cameras write it, from a process of its own, so that the same frames are the same bytes.

x264's tree of macroblocks reads memory that it never wrote: in a process that has decoded a video or freed large arrays, the
same frames are encoded differently each time (up to 110 of 255 in a pixel), which moved the spin of a textured ball by 0.2 to
2.8 %. Memory of a fresh process is zero.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryFile

import numpy as np


def write_h264(
    path: Path,
    frames: np.ndarray,
    rate: Fraction,
    options: Mapping[str, str],
    planar: bool = False,
    stamps: Sequence[int] = (),
    clock: Fraction | None = None,
) -> int:
    """Write an .mp4 (libx264, yuv420p), and return the bytes of its frames.

    Args:
        path: Of the file; one that exists is replaced.
        frames: (T, height, width, 3) uint8 RGB, converted as PyAV does; where `planar`, (T, 3/2 height, width): Y, then U and V.
        rate: Frames per second.
        options: Of libx264.
        planar: Whether frames are planes of YUV.
        stamps: Time of each frame in units of `clock`; empty for a constant rate.
        clock: Unit of the stamps [s].

    Raises:
        RuntimeError: If the encoder fails, with what it says.
    """
    order = {
        "path": str(path),
        "shape": frames.shape,
        "rate": str(rate),
        "options": dict(options),
        "planar": planar,
        "stamps": list(stamps),
        "clock": None if clock is None else str(clock),
    }
    command = [sys.executable, "-m", __name__]
    with TemporaryFile() as words, Popen(command, stdin=PIPE, stdout=PIPE, stderr=words) as encoder:
        assert encoder.stdin is not None
        with suppress(BrokenPipeError):  # of an encoder that has ended: its status and words tell why
            encoder.stdin.write(json.dumps(order).encode() + b"\n")
            for frame in frames:
                encoder.stdin.write(frame.astype(np.uint8, copy=False).tobytes())
        size, _ = encoder.communicate()
        words.seek(0)
        if encoder.returncode:
            raise RuntimeError(f"libx264 wrote no {path}: {words.read().decode(errors='replace').strip()[-2000:]}")
    return int(size)


def main() -> None:
    """Encode what is read from standard input: a line of JSON, then the frames."""
    import av

    order = json.loads(sys.stdin.buffer.readline())
    count, *shape = order["shape"]
    kind, clock, size = "yuv420p" if order["planar"] else "rgb24", order["clock"], 0
    with av.open(order["path"], "w", format="mp4") as container:
        video = container.add_stream("libx264", rate=Fraction(order["rate"]), options=order["options"])
        video.width, video.height = shape[1], shape[0] * 2 // 3 if order["planar"] else shape[0]
        video.pix_fmt = "yuv420p"
        if clock is not None:
            video.codec_context.time_base = video.time_base = Fraction(clock)
        for k in range(count + 1):
            frame = None  # at the end, for the packets that wait
            if k < count:
                content = sys.stdin.buffer.read(math.prod(shape))
                frame = av.VideoFrame.from_ndarray(np.frombuffer(content, np.uint8).reshape(shape), kind)
            if frame is not None and clock is not None:
                frame.pts, frame.time_base = order["stamps"][k], Fraction(clock)
            for packet in video.encode(frame):
                size += packet.size
                container.mux(packet)
    print(size)


if __name__ == "__main__":
    main()
