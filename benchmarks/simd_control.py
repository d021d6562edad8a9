"""The job of `soft_box.py` in hand-written AVX-512, with its hand-written adjoint: how fast this machine can be.

The C++ source is no part of this project. It is looked for at `fem_control/simd.cpp` in the folder that the environment
variable `GRADSIM_PROTOTYPES` names, else `../shared/prototypes` beside this project, and compiled here. Its damping is
Newton's: rates of F itself and of three vertices of four, which constant velocity and spin set off; it is cheaper
than ours, which is objective.
"""

import ctypes
import os
import shutil
import subprocess
import tempfile
import weakref
from functools import cache
from pathlib import Path

import numpy as np
from soft_box import DT, GRAVITY, SoftBox

SOURCE = Path("fem_control/simd.cpp")
LANES = 16
FLAGS = ("-O3", "-march=native", "-ffast-math", "-fPIC", "-shared")


def folder() -> Path:
    """Where the prototypes are looked for."""
    return Path(os.environ.get("GRADSIM_PROTOTYPES") or Path(__file__).parents[2] / "shared" / "prototypes")


def missing() -> str | None:
    """Why the control cannot run here, as a sentence; None if it can."""
    if not (folder() / SOURCE).is_file():
        return f"{folder() / SOURCE} is not there; set GRADSIM_PROTOTYPES."
    if not shutil.which("g++"):
        return "g++ is not installed."
    flags = Path("/proc/cpuinfo")
    if not flags.is_file() or "avx512f" not in flags.read_text():
        return "this CPU has no AVX-512."
    return None


@cache
def library() -> ctypes.CDLL:
    """The compiled control."""
    with tempfile.TemporaryDirectory() as built:
        name = Path(built) / "control.so"
        subprocess.run(["g++", *FLAGS, str(folder() / SOURCE), "-o", str(name)], check=True)
        loaded = ctypes.CDLL(str(name))
    loaded.make_blocks.restype = ctypes.c_void_p
    return loaded


def aligned(*shape: int) -> np.ndarray:
    """Zeros in float32 that begin on a cache line, as its registers need."""
    size, line = int(np.prod(shape)), 64
    memory = np.zeros(size + line // 4, np.float32)
    begin = (-memory.ctypes.data % line) // 4
    return memory[begin : begin + size].reshape(shape)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


class SimdControl:
    """A rollout that keeps all states, and its reverse sweep. One more vertex pads the last block of tetrahedra.

    Args:
        box: The job.
        steps: How many.
    """

    def __init__(self, box: SoftBox, steps: int):
        self.box, self.vertices, self.steps, padded = box, len(box.x), steps, len(box.x) + 1
        self.count = -(-len(box.tets) // LANES)
        given = [np.ascontiguousarray(a, np.float32) for a in (box.rest_inverse, box.mu, box.lam, box.damping)]
        given = [np.ascontiguousarray(box.tets, np.int32), *given, box.activation.astype(np.float32)]
        self.blocks = ctypes.c_void_p(library().make_blocks(len(box.tets), *map(pointer, given), self.vertices))
        weakref.finalize(self, ctypes.CDLL(None).free, self.blocks)
        self.inverse_mass = box.inverse_mass.astype(np.float32)
        self.ground = np.array([*box.ground.values()], np.float32)
        self.x, self.v = aligned(steps + 1, padded, 4), aligned(steps + 1, padded, 4)
        self.x[0, :-1, :3], self.v[0, :-1, :3] = box.x, box.v
        self.force, self.force_adjoint = aligned(padded, 4), aligned(padded, 4)
        self.x_adjoint, self.v_adjoint = aligned(padded, 4), aligned(padded, 4)
        self.material_adjoint = aligned(self.count, 4, LANES)
        self.inverse_mass_adjoint, self.ground_adjoint = aligned(padded), aligned(4)

    def _common(self) -> list:
        sizes = [self.vertices, self.vertices + 1, self.count, self.blocks]
        numbers = [ctypes.c_float(DT), ctypes.c_float(-GRAVITY), self.steps]
        return [*sizes, pointer(self.inverse_mass), pointer(self.ground), *numbers, pointer(self.x), pointer(self.v)]

    def forward(self) -> np.ndarray:
        """Positions after the last step (n, 3)."""
        library().rollout_fwd(*self._common(), pointer(self.force), 1)
        return self.x[-1, :-1, :3]

    def backward(self) -> None:
        """Gradients of the loss, after `forward`."""
        found = [self.force_adjoint, self.x_adjoint, self.v_adjoint, self.material_adjoint]
        found += [self.inverse_mass_adjoint, self.ground_adjoint]
        for array in found:
            array[:] = 0
        self.x_adjoint[:-1, :3] = self.box.weights
        library().rollout_bwd(*self._common(), *map(pointer, found))

    def forward_backward(self) -> None:
        self.forward()
        self.backward()

    def gradients(self) -> dict[str, np.ndarray]:
        """Of the loss by the arrays of `SoftBox`, and by its ground's four numbers."""
        names = ("mu", "lam", "damping", "activation")
        flat = self.material_adjoint.transpose(1, 0, 2).reshape(4, -1)[:, : len(self.box.tets)]
        found = {"x": self.x_adjoint[:-1, :3], "v": self.v_adjoint[:-1, :3]}
        found |= {"inverse_mass": self.inverse_mass_adjoint[:-1], "ground": self.ground_adjoint}
        return found | dict(zip(names, flat, strict=True))
