"""The obstacles of a scene: how they are drawn, and what the rollout of a body reads of them.

A ball is a box without size whose edges are rounded by its radius (`obstacle.py`). A contact margin grows both.
"""

import torch
from torch import Tensor

from gradsim import mesh as meshes
from gradsim import rotation
from gradsim.physics.system import Values
from gradsim.surface import Look, Part


class ObstacleBody:
    """One obstacle.

    Args:
        name: Its name.
        node: The scene's description of it.
        dtype: Precision of all its tensors.
        device: Where they live.
    """

    def __init__(self, name, node, dtype: torch.dtype, device: torch.device):
        self.name, self.ball = name, node.radius is not None
        mesh = meshes.sphere(1.0, 3) if self.ball else meshes.box((1.0, 1.0, 1.0))
        self.rest = torch.tensor(mesh.vertices, dtype=dtype, device=device)
        self.faces, self.look = torch.tensor(mesh.faces, device=device), Look(tuple(node.colour))
        self.quat = self.rest.new_tensor(node.quat_xyzw)

    def part(self, first: int) -> Part:
        """Its piece of a surface, with so many vertices before it."""
        return Part(self.name, slice(first, first + len(self.rest)), self.faces, True, self.look)

    def orientation(self, values: Values) -> Tensor:
        """Unit quaternion (worlds, 4); no turn for a ball."""
        worlds = len(values[f"{self.name}.position"])
        if self.ball:
            return self.quat.expand(worlds, 4)
        turn = rotation.exponential(values[f"{self.name}.rotation_vector"])
        return rotation.multiply(turn, self.quat.expand(worlds, 4))

    def vertices(self, values: Values) -> Tensor:
        """Surface vertices (worlds, n, 3) [m]."""
        size = values[f"{self.name}.radius"][:, None] if self.ball else values[f"{self.name}.size"]
        at = rotation.rotate(self.orientation(values)[:, None], self.rest * size[:, None])
        return at + values[f"{self.name}.position"][:, None]

    def inputs(self, values: Values) -> list[Tensor]:
        """Centre (worlds, 3), axis (worlds, 3, 3), half (worlds, 3) and rounding (worlds,)."""
        centre, margin = values[f"{self.name}.position"], values[f"{self.name}.margin"]
        basis = torch.eye(3, dtype=centre.dtype, device=centre.device)
        axis = rotation.rotate(self.orientation(values)[:, None], basis.expand(len(centre), 3, 3))
        if self.ball:
            return [centre, axis, torch.zeros_like(centre), values[f"{self.name}.radius"] + margin]
        return [centre, axis, values[f"{self.name}.size"] / 2, margin.expand(len(centre))]
