"""Random legal scenes, forward and backward, in both precisions: finite, or an error that names what is not.

    finite     all states and derivatives are
    refused    `InputError` before the first step, such as a body that starts inside the ground
    diverged   `Divergence` that names step, body and quantity, or the adjoint of an implicit step that cannot be solved, which is named
    unnamed    a state or a derivative that is not finite, without an error
    crash      another exception

`make fuzz` prints the counts; GRADSIM_RANDOM_SCENES and GRADSIM_FUZZ_SEED choose others.
"""

import os
import warnings
from collections import Counter

import pytest
import torch
from random_scenes import KINDS, random_scene

from gradsim.errors import InputError
from gradsim.physics.model import Divergence, Model
from gradsim.scene import Scene

SCENES = int(os.environ.get("GRADSIM_RANDOM_SCENES", "10000"))
SEED = int(os.environ.get("GRADSIM_FUZZ_SEED", "0"))
MOST_STEPS = (
    "3e5"  # of a rollout: a millimeter-sized body between stiff springs needs 10⁸, minutes that show nothing more
)
REFUSED_SHARE = 0.5  # of scenes that say nothing about numbers


def rolled(number: int, dtype: torch.dtype) -> str:
    """One of the words above."""
    try:
        model = Model(Scene.parse(random_scene(number, SEED)), dtype=dtype)
        trajectory = model.rollout()
    except Divergence:
        return "diverged"
    except InputError:
        return "refused"
    states = [y for name in model.scene.bodies for y in trajectory[name].values()]
    if not all(torch.isfinite(y).all() for y in states):
        return "unnamed"
    try:
        torch.stack([(y[:, -1] ** 2).sum() for y in states if y.requires_grad]).sum().backward()
    except ArithmeticError as error:
        return "diverged" if "the adjoint of a step" in str(error) else f"crash {error}"
    slopes = [p.grad for p in model.parameters() if p.grad is not None]
    return "finite" if all(torch.isfinite(g).all() for g in slopes) else "unnamed"


@pytest.mark.slow
@pytest.mark.timeout(14400)
def test_random_scenes_are_finite_or_refused_by_name(capsys, monkeypatch):
    monkeypatch.setenv("GRADSIM_MAX_STEPS", MOST_STEPS)
    counts, bad = Counter(), []
    for number in range(SCENES):
        dtype = (torch.float64, torch.float32)[number // len(KINDS) % 2]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                word = rolled(number, dtype)
            except Exception as error:  # noqa: BLE001 -- each is a defect that is listed
                word = f"crash {type(error).__name__}: {error}"[:160]
        kind = KINDS[number % len(KINDS)].__name__
        counts[kind, word.split()[0]] += 1
        if number % 200 == 199:
            with capsys.disabled():
                print(number + 1, dict(counts), len(bad), flush=True)
        if word.startswith(("unnamed", "crash")):
            bad.append(f"{number} {kind} {dtype}: {word}")
    total = Counter()
    for (_, word), count in counts.items():
        total[word] += count
    with capsys.disabled():
        print(f"\n{SCENES} scenes: {dict(total)}; by kind: {dict(counts)}")
        print("\n".join(bad[:50]))
    assert not bad
    assert total["refused"] < REFUSED_SHARE * SCENES
