"""The kinds of bodies by the word that stands for them in a file."""

from gradsim.scene.body import Pendulum, Rigid
from gradsim.scene.cloth import Cloth
from gradsim.scene.double_pendulum import DoublePendulum
from gradsim.scene.solid import Solid
from gradsim.scene.springs import Springs

Body = Rigid | Pendulum | DoublePendulum | Solid | Cloth | Springs
KINDS: dict[str, type[Body]] = {
    "rigid": Rigid,
    "pendulum": Pendulum,
    "double_pendulum": DoublePendulum,
    "solid": Solid,
    "cloth": Cloth,
    "springs": Springs,
}
