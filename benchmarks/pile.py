"""Piles of 10, 100 and 300 boxes on a ground: gradsim beside MuJoCo, in one run.

Columns of boxes fall by a tenth of a millimetre onto one another and rest. Both take the same steps of 1/1200 s, gradsim steps of Runge and Kutta, whose forces
are evaluated four times, with contact by penalty, MuJoCo's with its own solver and defaults, which takes longer steps for the same motion: a figure here is a cost per step. Of
gradsim a step is the difference of two rollouts of different length, so that what a call costs beside is left out and told apart. Times are CPU time
of one thread, the least of repetitions that take turns, in float64.
"""

from beside_mujoco import DT, FPS, SUBSTEPS, of_each_size

from gradsim.app.figures import figure
from gradsim.scene import Scene

SIZE, GAP, FRAMES = 0.2, 1e-4, 8
GOALS = {10: 2.0, 100: 2.0, 300: 3.0}
LAW = {"stiffness": 2e4, "dissipation": 0.5, "friction_stiffness": 50, "friction": 0.5}


def places(count: int) -> list[tuple[float, float, float]]:
    """Centres [m] of boxes in layers, three of them in large piles; every other layer is shifted."""
    side = max(2, round((count / 3) ** 0.5))
    layers = [(*divmod(k % side**2, side), k // side**2) for k in range(count)]
    return [
        (1.05 * SIZE * i + 0.15 * SIZE * (layer % 2), 1.05 * SIZE * j, SIZE / 2 + GAP + (SIZE + GAP) * layer)
        for i, j, layer in layers
    ]


def scene(count: int) -> Scene:
    """The pile."""
    boxes = {
        f"box{k}": {"shape": {"box": {"size": [SIZE] * 3}}, "mass": 1.0, "position": list(place)}
        for k, place in enumerate(places(count))
    }
    return Scene.parse(
        {
            "gravity": 9.81,
            "timing": {"fps": FPS, "frames": FRAMES, "substeps": SUBSTEPS},
            "bodies": boxes,
            "ground": LAW,
            "contacts": {"boxes": {"between": "all", **LAW}},
        }
    )


def mujoco_xml(count: int) -> str:
    """The pile for MuJoCo."""
    half = SIZE / 2
    bodies = "".join(
        f'<body pos="{x} {y} {z}"><freejoint/><geom type="box" size="{half} {half} {half}" mass="1"/></body>'
        for x, y, z in places(count)
    )
    ground = '<geom type="plane" size="9 9 1"/>'
    return f'<mujoco><option timestep="{DT}"/><worldbody>{ground}{bodies}</worldbody></mujoco>'


def pile() -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    figures, notes = of_each_size(__doc__, "pile", GOALS, scene, mujoco_xml, lambda count: ("box0", "box0"))
    figures["model_300_s"] = figure(figures.pop("pile_300_model_cpu_s")["value"], goal=0.5)
    return figures, notes
