"""Obstacles and grounds of a scene: their surfaces, and their inputs of rollouts.

A ball is a box without size whose edges are rounded by its radius (`point_sdf.py`). A contact margin grows both.
"""

import math

import torch
from torch import Tensor

from gradsim.geometry import image_io
from gradsim.geometry import mesh as meshes
from gradsim.geometry.surface import Appearance, Part
from gradsim.numerics import rotation
from gradsim.physics.appearance import look_of
from gradsim.physics.system import Values


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
        self.faces = torch.tensor(mesh.faces, device=device)
        self.look = look_of(node, mesh, f"obstacles.{name}", mesh.smooth, {"dtype": dtype, "device": device})
        self.quat = self.rest.new_tensor(node.quat_xyzw)

    def part(self, first: int) -> Part:
        """Its part of a surface, whose vertices begin at index `first`."""
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


class GroundSquare:
    """Visible square of a ground: two triangles that face out of the ground.

    Arguments as for `ObstacleBody`; the node has `visible`.
    """

    def __init__(self, name, node, dtype: torch.dtype, device: torch.device):
        self.name, self.node = name, node
        to, visible = {"dtype": dtype, "device": device}, node.visible
        corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], **to)
        self.corners, self.faces = corners - 0.5, torch.tensor([[0, 1, 2], [0, 2, 3]], device=device)
        texture = None if visible.texture is None else torch.tensor(image_io.read(visible.texture), **to)
        self.look = Appearance(tuple(visible.colour), None, corners * visible.repeat, self.faces, texture)

    def part(self, first: int) -> Part:
        """Its part of a surface, whose vertices begin at index `first`."""
        return Part(self.name, slice(first, first + 4), self.faces, False, self.look)

    def vertices(self, values: Values) -> Tensor:
        """Corners (worlds, 4, 3) [m]."""
        normal = torch.nn.functional.normalize(values[f"{self.name}.normal"], dim=-1)
        middle = normal.new_tensor(self.node.visible.centre)
        middle = middle - ((normal * middle).sum(-1) - values[f"{self.name}.height"])[:, None] * normal
        floor = abs(self.node.normal[2]) > 0.7 * math.hypot(*self.node.normal)
        level = normal.new_tensor([0.0, 1.0, 0.0] if floor else [0.0, 0.0, 1.0])
        right = torch.nn.functional.normalize(torch.linalg.cross(level.expand_as(normal), normal), dim=-1)
        axes = torch.stack([right, torch.linalg.cross(normal, right)], 1)
        return middle[:, None] + self.node.visible.size * self.corners @ axes
