"""The kinds of bodies by the word that stands for them in a file."""

from gradsim.scene.body import Pendulum, Rigid
from gradsim.scene.solid import Solid

Body = Rigid | Pendulum | Solid
KINDS: dict[str, type[Body]] = {"rigid": Rigid, "pendulum": Pendulum, "solid": Solid}
