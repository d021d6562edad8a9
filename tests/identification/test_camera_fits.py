"""Fits of films of a cube in flight, drawn by code that shares nothing with the renderer: OpenCV's lens, rows in time, blur by averaging.

The motion is in closed form. Each of 16 lines per pixel is filled between its outermost crossings with the projected edges.
"""

from fractions import Fraction

import numpy as np
import pytest

import gradsim as gs
from gradsim.errors import Status
from gradsim.identification.observation.clip import Clip

cv2 = pytest.importorskip("cv2")
WIDTH, HEIGHT, FOCAL, SIDE, FPS, FRAMES = 160, 120, 130.0, 0.24, 30, 20
SPIN = (3.0, 2.0, -1.5)  # [rad/s]
G, VELOCITY, START = 9.81, (2.6, 0.3, 3.2), (-1.0, 0.0, -0.35)  # camera at (0, -2.4, 0), looking along y
EYE = np.array([0.0, -2.4, 0.0])
R = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
K = np.array([[FOCAL, 0, WIDTH / 2], [0, FOCAL, HEIGHT / 2], [0, 0, 1]])
SUB, POINTS, BLUR = 16, 9, 24


def edges(t, distortion):
    """Points along the twelve edges (times, 12, POINTS, 2) [px] of the cube at times (n,) [s]: a line crosses it between two of them."""
    middle = np.array(START) + np.outer(t, VELOCITY) - 0.5 * G * np.outer(t**2, [0, 0, 1])
    corners = SIDE / 2 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    pairs = [(i, j) for i in range(8) for j in range(i) if (i ^ j).bit_count() == 1]
    along = np.linspace(0, 1, POINTS)[:, None]
    points = np.stack([corners[i] + along * (corners[j] - corners[i]) for i, j in pairs])
    size = np.linalg.norm(SPIN)
    x, y, z = np.array(SPIN) / size
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    a = (size * t)[:, None, None]
    turns = np.eye(3) + np.sin(a) * cross + (1 - np.cos(a)) * cross @ cross  # inertia of a cube is that of a ball
    world = np.einsum("tij,epj->tepi", turns, points) + middle[:, None, None]
    seen = (world - EYE) @ R.T
    pixels = cv2.projectPoints(seen.reshape(-1, 3), np.zeros(3), np.zeros(3), K, np.array(distortion, float))[0]
    return pixels.reshape(len(t), 12, POINTS, 2)


def drawn(stamp, distortion=(0, 0, 0, 0, 0), readout=0.0, exposure=0.0):
    """Coverage (HEIGHT, WIDTH) of one frame."""
    image = np.zeros((HEIGHT, WIDTH))
    lines = (np.arange(HEIGHT * SUB) + 0.5) / SUB
    columns = np.arange(WIDTH)
    shares = (np.arange(BLUR) + 0.5) / BLUR - 0.5 if exposure else [0.0]
    for share in shares:
        t = stamp + readout * (lines / HEIGHT - 0.5) + exposure * share
        t = t if readout else np.array([stamp + exposure * share])
        points = np.broadcast_to(edges(t, distortion), (len(lines), 12, POINTS, 2))
        a, b = (x.reshape(len(lines), -1, 2) for x in (points[:, :, :-1], points[:, :, 1:]))
        y = lines[:, None]
        crosses = (a[..., 1] <= y) != (b[..., 1] <= y)
        with np.errstate(divide="ignore", invalid="ignore"):
            x = a[..., 0] + (y - a[..., 1]) / (b[..., 1] - a[..., 1]) * (b[..., 0] - a[..., 0])
        left = np.where(crosses, x, np.inf).min(1)[:, None]
        right = np.where(crosses, x, -np.inf).max(1)[:, None]
        overlap = np.clip(np.minimum(right, columns + 1) - np.maximum(left, columns), 0, 1)
        image += np.nan_to_num(overlap).reshape(HEIGHT, SUB, WIDTH).mean(1) / len(shares)
    return image


def film(path, stamps, **optics):
    """Write a lossless film of a black cube on white, with noise of σ = 1/255."""
    rng = np.random.default_rng(0)
    masks = np.stack([drawn(t, **optics) for t in stamps])
    grey = np.clip(np.rint(255 * (1 - masks) + rng.standard_normal(masks.shape)), 0, 255).astype(np.uint8)
    return write(path, np.repeat(grey[..., None], 3, -1), stamps)


def write(path, frames, stamps):
    """Frames at any times, without loss."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264rgb", rate=FPS, options={"qp": "0", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "rgb24"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 90000)
        for image, t in zip(frames, stamps, strict=True):
            frame = av.VideoFrame.from_ndarray(image, "rgb24")
            frame.pts, frame.time_base = round(t * 90000), Fraction(1, 90000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def scene(camera=None, **timing):
    """The scene of the film; the start is known to some centimeters."""
    look = {"size": [WIDTH, HEIGHT], "look_at": {"eye": list(EYE), "target": [0, 0, 0]}, "focal": FOCAL}
    cube = {
        "shape": {"box": {"size": [SIDE] * 3}},
        "angular_velocity": list(SPIN),
        "mass": 1.0,
        "colour": [0, 0, 0],
        "position": list(START),
        "velocity": list(VELOCITY),
    }
    content = {"bodies": {"cube": cube}, "background": [1, 1, 1], "camera": look | (camera or {})}
    return gs.Scene.parse(content | {"timing": {"fps": FPS, "frames": FRAMES, **timing}})


UNKNOWNS = [
    *("gravity.z:-12:-7", "cube.velocity.x:2:3", "cube.velocity.y:-0.5:1", "cube.velocity.z:2.5:4"),
    *("cube.position.x:-1.2:-0.8", "cube.position.y:-0.2:0.2", "cube.position.z:-0.5:-0.2"),
]
TRUTH = {
    "gravity.z": -G,
    "cube.velocity.x": VELOCITY[0],
    "cube.velocity.y": VELOCITY[1],
    "cube.velocity.z": VELOCITY[2],
}
UNIFORM = np.arange(FRAMES) / FPS
UNEVEN = UNIFORM + 0.3 / FPS * np.random.default_rng(1).uniform(-1, 1, FRAMES) * (UNIFORM > 0)
CASES = {  # of the film; of the scene; its unknown; truth
    "lens": (
        UNIFORM,
        {"distortion": (-0.25, 0.05, 0, 0, 0)},
        {"distortion": [-0.25, 0.05, 0, 0, 0]},
        "camera.distortion.k1:-0.5:0.2",
        -0.25,
    ),
    "readout": (UNIFORM, {"readout": 0.025}, {"readout": 0.025}, "camera.readout:0:0.05", 0.025),
    "exposure": (UNIFORM, {"exposure": 0.02}, {"exposure": 0.02}, "camera.exposure:0:0.033", 0.02),
    "stamps": (UNEVEN, {}, {}, None, None),
}


def errors(fit):
    """Largest error over the stated standard deviation, of gravity and velocity, and that of gravity [m/s²]."""
    off = {name: (fit.unknowns[name].value - truth) / fit.unknowns[name].std for name, truth in TRUTH.items()}
    return max(map(abs, off.values())), fit.unknowns["gravity.z"].value + G


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_cube_of_a_foreign_film_is_measured_where_the_camera_is_known(case, tmp_path):
    stamps, optics, camera, _, _ = CASES[case]
    clip = Clip(film(tmp_path / "film.mp4", stamps, **optics), noise="auto")
    fit = gs.identify(scene(camera), UNKNOWNS, clip, starts=2)
    worst, gravity = errors(fit)
    assert fit.status == Status.OK and worst < 3 and abs(gravity) < 0.01


@pytest.mark.slow
def test_a_readout_of_a_foreign_film_that_is_unknown_is_measured_with_the_motion(tmp_path):
    stamps, optics, _, unknown, truth = CASES["readout"]
    clip = Clip(film(tmp_path / "film.mp4", stamps, **optics), noise="auto")
    fit = gs.identify(scene({"readout": 0.0}), [*UNKNOWNS, unknown], clip, starts=2)
    readout = fit.unknowns["camera.readout"]
    assert fit.status == Status.OK and abs(readout.value - truth) < 3 * readout.std < 0.1 * truth
    assert errors(fit)[0] < 3
