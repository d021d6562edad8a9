"""Run folders with made-up results, as `gradsim demo` and `gradsim fit` leave them."""

import base64
import json
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from gradsim.app.report import plots

WRITTEN = ("test_report.py", "test_demo.py", "test_landscape.py")  # whose plots are laid out and written
POINT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)  # PNG of one pixel
RANGES = {
    "cube.mass": (2.0, 12.0, "kg"),
    "ground.stiffness": (2e4, 5e5, "N/m"),
    "ground.friction": (0.2, 1.0, ""),
}
TRUTH = {"cube.mass": 5.31, "ground.stiffness": 1.234e5, "ground.friction": 0.482}
SPREAD = {"cube.mass": 2e-5, "ground.stiffness": 1e-4, "ground.friction": 3e-3}  # relative


@pytest.fixture(scope="module", autouse=True)
def unwritten_plots(request):
    """Plots of pages are drawn, but neither laid out nor written: that is nine tenths of their time, and half of that of most commands."""

    def file(draw, width, kind, **options):
        with mpl.rc_context({"figure.figsize": (width, 3.0)}):
            draw()
        return POINT if kind == "png" else b"<svg xmlns='http://www.w3.org/2000/svg'/>"

    with pytest.MonkeyPatch.context() as patch:
        if request.path.name not in WRITTEN:
            patch.setattr(plots, "_file", file)
        yield


def _estimate(name: str, z: float) -> dict:
    low, high, unit = RANGES[name]
    std = SPREAD[name] * TRUTH[name]
    value = TRUTH[name] + z * std
    return {
        "value": value,
        "std": std,
        "interval95": [value - 1.96 * std, value + 1.96 * std],
        "unit": unit,
        "low": low,
        "high": high,
        "identifiable": True,
        "truth": TRUTH[name],
    }


@pytest.fixture
def answered() -> dict:
    """Two fits: of float frames, and of an 8-bit video."""
    zs = dict(zip(RANGES, (-0.4, 1.2, 0.3), strict=True))
    return {
        "schema": "gradsim.result/3",
        "command": "demo",
        "title": "Mass, stiffness and friction of a cube, from its video",
        "status": "ok",
        "unknowns": {name: _estimate(name, 1e-6 * zs[name]) for name in RANGES},
        "sigma_reference": 1 / 255,
        "chi2_per_n": 1.2e-14,
        "informative": 20123,
        "rank": 3,
        "null_directions": [],
        "starts": {"count": 16, "converged": 6},
        "iterations": 96,
        "rollouts": 2816,
        "cpu_seconds": 12.7,
        "wall_seconds": 9.1,
        "seed": 0,
        "versions": {"gradsim": "0.1.0", "torch": "2.13.0", "warp-lang": "1.19.0"},
        "unknowns_8bit": {name: _estimate(name, zs[name]) for name in RANGES},
        "status_8bit": "ok",
        "chi2_per_n_8bit": 1.013,
        "starts_8bit": {"count": 16, "converged": 5},
        "null_directions_8bit": [],
    }


@pytest.fixture
def unanswered(answered) -> dict:
    """One fit whose mass and stiffness only show as a ratio."""
    content: dict = {k: v for k, v in answered.items() if not k.endswith("_8bit")} | {"status": "unidentifiable"}
    for name in ("cube.mass", "ground.stiffness"):
        content["unknowns"][name] |= {"std": None, "interval95": [None, None], "identifiable": False}
    content["rank"] = 2
    content["null_directions"] = [
        {
            "combination": {"cube.mass": 0.707107, "ground.stiffness": 0.707107, "ground.friction": 0.0},
            "explanation": "Multiplying cube.mass and ground.stiffness by one common factor changes nothing that was "
            "observed: only their ratio shows. A push with a known impulse would fix the scale.",
            "bound": None,
        }
    ]
    return content


def _history() -> dict:
    rng = np.random.default_rng(0)
    low, high = (np.array([r[k] for r in RANGES.values()]) for k in (0, 1))
    initial = low + (high - low) * rng.random((16, 3))
    truth = np.array(list(TRUTH.values()))
    final = truth * (1 + 1e-4 * rng.standard_normal((16, 3)))
    final[10:13] = initial[10:13] + 0.3 * (truth - initial[10:13])
    cost = np.where(np.arange(16) < 10, 2.1e4, 4e5)
    stages = []
    for k, frames in enumerate(range(4, 46, 2)):
        kind = "curriculum" if frames < 44 else "pixels"
        values = truth * (1 + 0.5 * np.exp(-0.35 * k) * rng.standard_normal(3))
        entry = {"stage": kind, "frames": frames, "iteration": 4 * (k + 1), "rollouts": 120 * k, "population": 16}
        stages.append(
            entry | {"cost": frames * (460 + 5e4 * np.exp(-0.6 * k)), "values": dict(zip(RANGES, values, strict=True))}
        )
    dropped = [None, None, None]
    return {
        "stages": stages,
        "starts": {
            "names": list(RANGES),
            "initial": initial.tolist(),
            "final": [row if k < 13 else dropped for k, row in enumerate(final.tolist())],
            "cost": [c if k < 13 else None for k, c in enumerate(cost.tolist())],
        },
    }


@pytest.fixture
def run_folder(tmp_path):
    """Make a run folder from the content of its result.json."""

    def make(content: dict) -> Path:
        (tmp_path / "result.json").write_text(json.dumps(content))
        (tmp_path / "history.json").write_text(json.dumps(_history()))
        return tmp_path

    return make
