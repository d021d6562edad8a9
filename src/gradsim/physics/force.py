"""What a file of forces says about itself: on how many vertices they act, and which arrays they read by name.

A force file is a template (see `engine.lanes`) with a function `forces`, whose arguments are the positions x0, x1, ...
and velocities v0, v1, ... of the vertices of one element, then the constants of its rest shape, then its parameters; it
returns the force on each vertex. Beside it stand `energy`, the same physics in plain PyTorch, and a `Force`. A file may
also have `power`, the forces' virtual power in fewer operations than Σ f · w, and `active` (of some of the arguments of
`forces`): where it holds in no lane, there are no forces.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gradsim.engine.lanes import Lane


@dataclass(frozen=True)
class Force:
    """Forces on the vertices of elements of one kind.

    Args:
        name: Its file in `gradsim.physics`, or the dotted name of a module elsewhere.
        nodes: Vertices of one element.
        rest: Constants of each element, the same in all worlds, as name: "Real", "Vec3" or "Mat3".
        parameters: Arrays with gradients, as name: kind; of each element, or one for all elements of a world.
        bind: Names that the file leaves open, for a lane type.
    """

    name: str
    nodes: int
    rest: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    bind: Callable[[Lane], Mapping[str, object]] | None = None

    @property
    def module(self) -> str:
        """Dotted name of its file."""
        return self.name if "." in self.name else f"gradsim.physics.{self.name}"

    def __hash__(self) -> int:
        return hash((self.name, self.nodes))
