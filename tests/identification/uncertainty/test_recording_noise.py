"""Noise of recordings in fits: the scatter of an answer is that of fits with other recordings, and the table says so."""

import numpy as np
import torch

import gradsim as gs
from gradsim.identification import MultistartConfig, least_squares
from gradsim.identification.uncertainty import recording_noise

NOISE, DAMPING = 2e-3, 0.3
TIMES = np.linspace(0, 0.5, 6)
PATH = np.stack([-0.3 + 0.1 * np.sin(7 * TIMES), 0.05 * np.sin(11 * TIMES), 0.03 * TIMES], 1)
RANGE = ["it.stiffness:20:80"]
SHORT = MultistartConfig(starts=1, curriculum=False, rounds=0, explore=False, polish=1)


def scene(path: np.ndarray) -> gs.Scene:
    """A weight on a spring whose end a shaker moves."""
    motion = {"vertices": [0], "times": TIMES.tolist(), "positions": path[:, None].tolist(), "noise": NOISE}
    body = {"kind": "springs", "shape": {"rope": {"length": 0.6, "segments": 1}}, "mass": 0.4, "stiffness": 40}
    body |= {"damping": DAMPING, "radius": 0.01, "motion": motion}
    timing = {"fps": 20, "frames": 11, "substeps": 8, "integrator": "nystrom", "tolerance": 0.5}
    return gs.Scene.parse({"bodies": {"it": body}, "gravity": [0, 0, 0], "timing": timing})


def observed(seen: torch.Tensor) -> gs.Vertices:
    return gs.Vertices("it", seen, sigma=1e-4)


def test_the_scatter_is_that_of_fits_with_other_recordings():
    """Of ten fits, whose root mean square is good to 25 %; and it is what the table and its words say."""
    seen = gs.Model(scene(PATH)).rollout()["it"]["x"][0].detach()
    seen[:, 0] = torch.nan  # the shaker is not seen
    fit = gs.identify(scene(PATH), RANGE, observation=observed(seen), starts=1)
    (row,) = [row for row in fit.known_numbers["numbers"] if row["name"] == "it.motion.0"]
    rng = np.random.default_rng(1)
    wrong = [PATH + NOISE * rng.standard_normal(PATH.shape) for _ in range(10)]
    fits = [least_squares(scene(path), observed(seen), RANGE, SHORT) for path in wrong]
    answers = [fit.values["it.stiffness"] for fit in fits]
    scatter = np.sqrt(np.mean((np.array(answers) - 40) ** 2))
    effect = row["effects"]["it.stiffness"]
    assert 0.6 < effect["shift"] / scatter < 1.6
    assert (
        effect["sd"] > 1
        and abs(effect["sd"] - effect["shift"] / fit.unknowns["it.stiffness"].std) < 1e-6 * effect["sd"]
    )
    assert "The noise of the recording it.motion.0 scatters it.stiffness by" in fit.known_numbers["words"]


def test_widths_are_those_of_each_motion_by_itself():
    content = scene(PATH).model_dump(exclude_unset=True, by_alias=True)
    quiet = {"vertices": [0], "times": [0, 1], "positions": [[[-0.3, 0, 0]]] * 2}
    grip = {"vertices": [1], "times": [0, 1, 2], "poses": [{}] * 3, "noise": 1e-3, "angle_noise": 0.02}
    content["bodies"]["it"]["motion"] = [quiet, grip]
    widths = recording_noise.noisy_recordings(gs.Scene.parse(content))
    assert list(widths) == ["it.motion.1"]
    assert widths["it.motion.1"]["it.motion_offset"][:, 0].tolist() == [0, 0, 1e-3, 1e-3, 1e-3]
    assert widths["it.motion.1"]["it.motion_rotation"][:, 1].tolist() == [0.02] * 3


def test_widths_of_rigid_bodies_and_joints_are_those_of_all_samples():
    hand = {"times": [0, 1, 2], "positions": [[0, 0, 0], [0, 0, 0.1], [0, 0, 0.2]]}
    bodies = {
        name: {"shape": {"sphere": {"radius": 0.1}}, "mass": 1, "collision": "none"}
        for name in ("hand", "bob", "still")
    }
    bodies["hand"]["motion"] = hand | {"noise": 1e-3}
    bodies["still"]["motion"] = hand
    pivot = {"kind": "ball", "between": ["world", "bob"], "motion": hand | {"angle_noise": 0.02}}
    widths = recording_noise.noisy_recordings(gs.Scene.parse({"bodies": bodies, "joints": {"pivot": pivot}}))
    assert list(widths) == ["hand.motion", "joints.pivot.motion"]
    assert widths["hand.motion"]["hand.motion_offset"].tolist() == [[1e-3] * 3] * 3
    assert not widths["hand.motion"]["hand.motion_rotation"].any()
    assert widths["joints.pivot.motion"]["joints.pivot.motion_rotation"].tolist() == [[0.02] * 3] * 3
