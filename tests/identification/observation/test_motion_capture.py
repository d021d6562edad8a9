"""C3D files, written by a program of a few lines from the format's description, with the library that reads them."""

import struct

import numpy as np
import pytest
from tracks_cases import CORNERS, scene, thrown

from gradsim.errors import InputError
from gradsim.identification.observation.tracks import read_tracks

pytest.importorskip("c3d", reason="extra c3d")


def parameter(group, name, kind, dims, data):
    """One entry of the parameter section: type -1 text, 2 integers, 4 floats."""
    body = bytes([256 + kind if kind < 0 else kind, len(dims), *dims]) + data + b"\0"
    return bytes([len(name), group]) + name.encode() + struct.pack("<h", len(body) + 2) + body


def c3d_file(path, positions, residuals, labels, units="mm", up="+Z", rate=60.0):
    """Positions (frames, n, 3) in the units of the file as float data."""
    frames, n = positions.shape[:2]
    text = lambda values, width: "".join(v.ljust(width) for v in values).encode()
    entries = bytes([5, 256 - 1]) + b"POINT" + struct.pack("<h", 3) + b"\0"
    entries += parameter(1, "USED", 2, [], struct.pack("<h", n)) + parameter(
        1, "FRAMES", 2, [], struct.pack("<h", frames)
    )
    entries += parameter(1, "SCALE", 4, [], struct.pack("<f", -1.0)) + parameter(
        1, "RATE", 4, [], struct.pack("<f", rate)
    )
    entries += parameter(1, "DATA_START", 2, [], struct.pack("<h", 4))
    entries += parameter(1, "LABELS", -1, [4, n], text(labels, 4)) + parameter(
        1, "UNITS", -1, [len(units)], units.encode()
    )
    entries += parameter(1, "Y_SCREEN", -1, [2], up.encode()) + b"\0\0"
    header = bytearray(512)
    header[:2] = bytes([2, 80])
    struct.pack_into("<hhhhhfhhf", header, 2, n, 0, 1, frames, 0, -1.0, 4, 0, rate)
    section = (bytes([1, 80, 2, 84]) + entries).ljust(1024, b"\0")
    data = np.concatenate([positions, residuals[..., None]], -1).astype("<f4").tobytes()
    path.write_bytes(bytes(header) + section + data.ljust(-(-len(data) // 512) * 512, b"\0"))
    return path


def flight(tmp_path, **more):
    positions = 1000 * thrown(12)
    residuals = np.zeros((12, 4))
    residuals[3, 1] = -1
    return c3d_file(tmp_path / "run.c3d", more.pop("positions", positions), residuals, list(CORNERS), **more)


def test_positions_are_in_meters_and_a_residual_below_0_is_a_gap(tmp_path):
    tracks = read_tracks(scene(), flight(tmp_path), 1e-3)
    expected = thrown(12)
    expected[3, 1] = np.nan
    assert tracks.names == list(CORNERS) and tracks.silhouettes is None
    assert np.allclose(tracks.positions.numpy(), expected, atol=1e-6, equal_nan=True)


def test_the_upward_axis_becomes_z(tmp_path):
    """x, y up, -z of the file are x, z, y."""
    turned = 1000 * thrown(12)[..., [0, 2, 1]] * [1, 1, -1]
    tracks = read_tracks(scene(), flight(tmp_path, positions=turned, up="+Y"), 1e-3)
    assert np.allclose(tracks.positions[0].numpy(), thrown(1)[0], atol=1e-6)


def test_a_multiple_of_the_rate_is_thinned(tmp_path):
    tracks = read_tracks(scene(), flight(tmp_path, rate=240.0), 1e-3)
    assert tracks.frames == 3 and np.allclose(tracks.positions[1].numpy(), thrown(12)[4], atol=1e-6)


@pytest.mark.parametrize(
    "more, sigma, words",
    [
        ({}, None, "noise of the tracks .* is not stated"),
        ({"units": "in"}, 1e-3, "has the unit 'in'"),
        ({"up": "-Z"}, 1e-3, "the upward axis '-Z'"),
        ({"rate": 100.0}, 1e-3, "has 100 frames per second, and `timing.fps` is 60"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, more, sigma, words):
    with pytest.raises(InputError, match=words):
        read_tracks(scene(), flight(tmp_path, **more), sigma)


def test_other_labels_and_damaged_files_are_refused(tmp_path):
    path = flight(tmp_path)
    with pytest.raises(InputError, match="has no marker of the scene"):
        read_tracks(scene({"z": {"body": "cube", "point": [0, 0, 0]}}), path, 1e-3)
    path.write_bytes(path.read_bytes()[:600])
    with pytest.raises(InputError, match="cannot read .* as C3D"):
        read_tracks(scene(), path, 1e-3)
