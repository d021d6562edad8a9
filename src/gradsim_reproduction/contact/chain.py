"""A chain of four links from one URDF file, in gradsim and in Newton's SolverFeatherstone (extra `newton`).

The links are boxes that hang on hinges about different axes and start at rest, stretched out sideways.
"""

import importlib.util
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.physics.model import Model
from gradsim.scene import Scene

LINKS, LENGTH, WIDTH, MASS = 4, 0.3, 0.05, 0.4
AXES = ("0 1 0", "0 0.8 0.6", "0.6 0.8 0", "0 1 0")
ANGLE, DAMPING = 0.4, 0.01  # [rad] at each hinge at the start; [N m s/rad]
DURATION, FPS = 0.5, 50  # [s]; frames that are compared [1/s]


def has_newton() -> bool:
    """True if Newton is installed."""
    return importlib.util.find_spec("newton") is not None


def urdf() -> str:
    """The chain as a file: the base has no mass, so it is the world."""
    across, along = (MASS * (a**2 + b**2) / 12 for a, b in ((LENGTH, WIDTH), (WIDTH, WIDTH)))
    parts = ['<robot name="chain"><link name="base"/>']
    for k in range(LINKS):
        parent, place = (f"link{k - 1}", f"0 0 {-LENGTH}") if k else ("base", "0 0 0")
        parts.append(
            f'<link name="link{k}"><inertial><mass value="{MASS}"/><origin xyz="0 0 {-LENGTH / 2}"/>'
            f'<inertia ixx="{across}" iyy="{across}" izz="{along}" ixy="0" ixz="0" iyz="0"/></inertial>'
            f'<visual><origin xyz="0 0 {-LENGTH / 2}"/><geometry><box size="{WIDTH} {WIDTH} {LENGTH}"/></geometry>'
            f'</visual></link><joint name="hinge{k}" type="continuous"><parent link="{parent}"/><child link="link{k}"/>'
            f'<origin xyz="{place}"/><axis xyz="{AXES[k]}"/><dynamics damping="{DAMPING}"/></joint>'
        )
    return "".join([*parts, "</robot>"])


def scene(folder: Path, substeps: int, integrator: str = "semi-implicit") -> Scene:
    """The file as a scene; `folder` gets it."""
    from gradsim.scene import importers

    path = Path(folder) / "chain.urdf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(urdf(), encoding="utf-8")
    content = importers.load(path).scene.model_dump(exclude_unset=True)
    frames = round(DURATION * FPS) + 1
    content["timing"] = {"fps": FPS, "frames": frames, "substeps": substeps, "integrator": integrator}
    for joint in content["joints"].values():
        joint["angle"] = ANGLE
    return Scene.parse(content)


def centers(model: Model) -> np.ndarray:
    """Centres of mass of the links at all frames (frames, links, 3) [m]."""
    with torch.no_grad():
        trajectory = model.rollout()
    return torch.stack([trajectory[f"link{k}"]["x"][0] for k in range(LINKS)], 1).double().numpy()


class NewtonChain:
    """The file in Newton, which has float32 alone.

    Args:
        folder: Has the file (see `scene`).
        substeps: Steps per frame.
        worlds: How many of it, side by side; `centers` are those of the first.
    """

    def __init__(self, folder: Path, substeps: int, worlds: int = 1):
        import newton
        import warp as wp

        wp.config.log_level = wp.LOG_ERROR
        builder, copies = newton.ModelBuilder(), newton.ModelBuilder()
        builder.add_urdf(str(Path(folder) / "chain.urdf"), floating=False)
        labels = [label.rsplit("/")[-1] for label in builder.body_label]
        self.links = [labels.index(f"link{k}") for k in range(LINKS)]
        for k in range(LINKS):
            builder.joint_q[k] = ANGLE
        self.coms = np.array([[float(c) for c in builder.body_com[b]] for b in self.links])
        copies.replicate(builder, worlds)
        self.model: Any = copies.finalize(device="cpu")
        self.solver: Any = newton.solvers.SolverFeatherstone(self.model, angular_damping=0.0)
        self.control, self.substeps, self.dt = self.model.control(), substeps, 1 / (FPS * substeps)
        self.states: list[Any] = [self.model.state(), self.model.state()]
        self._kinematics = newton.eval_fk

    def start(self) -> None:
        """Back to the first frame."""
        first = self.states[0]
        first.joint_q.assign(self.model.joint_q)
        first.joint_qd.assign(self.model.joint_qd)
        self._kinematics(self.model, first.joint_q, first.joint_qd, first)

    def frame(self) -> None:
        """The steps of one frame."""
        for _ in range(self.substeps):
            before, after = self.states
            before.clear_forces()
            self.solver.step(before, after, self.control, None, self.dt)
            self.states.reverse()

    def centers(self) -> np.ndarray:
        """As of `centers`."""
        self.start()
        frames = [self._centers()]
        for _ in range(round(DURATION * FPS)):
            self.frame()
            frames.append(self._centers())
        return np.stack(frames)

    def seconds_per_step(self) -> float:
        """CPU time of a step when a frame's steps are replayed as a recording, as fast as Newton goes [s]."""
        import warp as wp

        self.start()
        self.frame()  # loads the kernels, which a recording cannot
        with wp.ScopedCapture(device="cpu") as capture:
            self.frame()
        graph: Any = capture.graph
        return fastest(lambda: wp.capture_launch(graph)) / self.substeps

    def _centers(self) -> np.ndarray:
        poses = self.states[0].body_q.numpy()[self.links].astype(np.float64)
        u, w = poses[:, 3:6], poses[:, 6:]
        turned = self.coms + 2 * np.cross(u, np.cross(u, self.coms) + w * self.coms)
        return poses[:, :3] + turned


def fastest(run, repeats: int = 5) -> float:
    """The least CPU time of some runs after a first [s]."""
    times = [math.inf]
    for k in range(repeats + 1):
        begin = time.process_time()
        run()
        times.append(time.process_time() - begin if k else math.inf)
    return min(times)
