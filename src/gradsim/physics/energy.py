"""Energy of a motion: where it rises though nothing supplies any, the time steps are too long.

    E = Σ ½ m v² + ½ ω·l - m g·x                of vertices, and of rigid bodies

Elasticity and contact store energy, never below 0, and friction and damping take some. So E stays at or below that of the
start, blows and what contact stores there included, but for motors, muscles, wind and the like, whose bodies are left out.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradsim.physics.contact_events import contact_energy
from gradsim.physics.model import Model
from gradsim.physics.system import Island, Values
from gradsim.physics.trajectory import Trajectory

MAX_ENERGY_RISE = 1e-3  # of the largest energy; steps of `auto` stay far below


@dataclass(frozen=True)
class EnergyRise:
    """Energy that steps have made.

    Attributes:
        bodies: Names of those that move together.
        rise: Largest rise above the energy at the start, over the largest energy.
        frame: Where it is largest.
        substeps: Of the motion.
        needed: Steps per frame that `auto` takes.
    """

    bodies: tuple[str, ...]
    rise: float
    frame: int
    substeps: int
    needed: int

    @property
    def words(self) -> str:
        names, verb = "` and `".join(self.bodies), "has" if len(self.bodies) == 1 else "have"
        way = f"Set timing.substeps to {self.needed} or more, or to auto"
        if self.needed <= self.substeps:
            way = f"Set timing.integrator to auto, or timing.substeps to more than {self.substeps}"
        return (
            f"`{names}` {verb} gained energy, up to {self.rise:.2g} of the largest (frame {self.frame}), which nothing "
            f"supplies: steps are too long for how hard it hits or how fast it turns. {way}."
        )


def energy_increases(model: Model, trajectory: Trajectory, least: float = MAX_ENERGY_RISE) -> list[EnergyRise]:
    """Groups of bodies whose energy rises by more than a share of the largest, in world 0.

    Args:
        model: That of the trajectory.
        trajectory: All frames from the start on.
        least: That share.
    """
    values, rises = {name: y.detach() for name, y in trajectory.values.items()}, []
    for group in model.groups:
        bodies = tuple(system.name for system in group.systems)
        if any(name.split(".")[0] in bodies for name in model.forces):
            continue
        energies = _energies(group, trajectory, values, not model.scene.timing.offset)
        if energies is None:
            continue
        total, lowest = energies
        share = (total - total[0]) / (total - lowest).max().clamp(min=1e-300)
        if share.max() > least:
            frame, needed = int(share.argmax()), model.recommended_substeps(values)
            rises.append(EnergyRise(bodies, share[frame].item(), frame, model.substeps, needed))
    return rises


def _energies(group: Island, trajectory: Trajectory, values: Values, from_start: bool) -> tuple[Tensor, Tensor] | None:
    """Energy (frames,) [J], and the least of gravity's; None where something supplies energy, or may."""
    if group.has_drive(values):
        return None
    total, lowest = torch.zeros(()), torch.zeros(())
    for system in group.systems:
        state = {name: y.detach() for name, y in trajectory[system.name].items()}
        first = {name: y[:, :1] for name, y in state.items()}
        energies = system.energy(state, values)
        start = system.energy(system.after_impulses(first, values) if from_start else first, values)
        if energies is None or start is None:
            return None
        at_start = start[0][0] + start[1][0]
        if system.contact_points is not None:
            at_start = at_start + contact_energy(system, first, values)
        total = total + torch.cat([at_start, (energies[0] + energies[1])[0, 1:]])
        lowest = lowest + energies[1][0].min()
    return total, lowest
