"""Chains of 5 to 100 hinged links that swing: gradsim beside MuJoCo, in one run.

Both take the same semi-implicit steps of 1/1200 s in float64: gradsim by rows and multipliers, which is linear in the number of links of a chain,
MuJoCo by joint angles and its sparse factor. Of gradsim a step is the difference of two rollouts of different length, so that what a call costs
beside is left out and told apart. Times are CPU time of one thread, the least of repetitions that take turns.
"""

from beside_mujoco import DT, FPS, SUBSTEPS, of_each_size

from gradsim.app.figures import figure
from gradsim.scene import Scene

LENGTH, WIDTH, MASS, DAMPING = 0.1, 0.02, 0.1, 1e-3
FIRST_ANGLE, ANGLE = 0.3, 0.02  # [rad] at the start, of the first hinge and of the others
STEPS = 160_000  # of the long rollout more than of the short one, over the number of links
GOALS = {5: 2.0, 20: 1.5, 50: 1.0, 100: 1.0}


def scene(count: int) -> Scene:
    """The chain, which hangs from the world."""
    link = {"shape": {"box": {"size": [WIDTH, WIDTH, LENGTH]}}, "mass": MASS, "collision": "none"}
    half, joints = LENGTH / 2, {}
    for k in range(count):
        joints[f"hinge{k}"] = {
            "kind": "revolute",
            "between": [f"link{k - 1}" if k else "world", f"link{k}"],
            "parent_point": [0, 0, -half if k else 1.0],
            "child_point": [0, 0, half],
            "axis": [0, 1, 0],
            "angle": ANGLE if k else FIRST_ANGLE,
            "damping": DAMPING,
        }
    timing = {
        "fps": FPS,
        "frames": 2 + round(STEPS / (count * SUBSTEPS)),
        "substeps": SUBSTEPS,
        "integrator": "semi-implicit",
    }
    bodies = {f"link{k}": link for k in range(count)}
    return Scene.parse({"gravity": 9.81, "timing": timing, "bodies": bodies, "joints": joints})


def mujoco_xml(count: int) -> str:
    """The chain for MuJoCo, at the same angles."""
    half = LENGTH / 2
    geom = f'<geom type="box" size="{WIDTH / 2} {WIDTH / 2} {half}" pos="0 0 {-half}" mass="{MASS}" contype="0" conaffinity="0"/>'
    links = "".join(
        f'<body pos="0 0 {-LENGTH if k else 1.0}" euler="0 {ANGLE if k else FIRST_ANGLE} 0"><joint type="hinge" axis="0 1 0" damping="{DAMPING}"/>{geom}'
        for k in range(count)
    )
    compiler, option = '<compiler angle="radian"/>', f'<option timestep="{DT}"/>'
    return f"<mujoco>{compiler}{option}<worldbody>{links}{'</body>' * count}</worldbody></mujoco>"


def links() -> tuple[dict, list[str]]:
    """Figures, and what a reader of them has to know."""
    figures, notes = of_each_size(__doc__, "chain", GOALS, scene, mujoco_xml, lambda n: ("link0", f"link{n - 1}"))
    figures["chain_100_call_ms"] = figure(figures["chain_100_call_ms"]["value"], goal=10.0)
    return figures, notes
