"""The search of a task file: the settings of `Search`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from gradsim.errors import InputError
from gradsim.scene.node import Node, Place
from gradsim.scene.quantity import Count, Quantity, positive

if TYPE_CHECKING:
    from gradsim.control.search import Search


class HorizonNode(Node):
    """The part of the film that counts, see `gradsim.control.horizon`.

    Attributes:
        first: The share of the film in the first iteration.
        iterations: From this one on it is the whole film.
    """

    first: Annotated[float, Quantity("", lower=0.0, upper=1.0, above=True)] = 0.25
    iterations: Annotated[int, Count(0, 1_000_000)] = 10


class SearchNode(Node):
    """How the policy is looked for: see `gradsim.control.search.Search`, which has the same settings."""

    optimiser: str = "adam"
    rate: Annotated[float | None, positive("")] = None
    iterations: Annotated[int, Count(1, 1_000_000)] = 40
    clip: Annotated[float | None, positive("")] = None
    schedule: str | dict[str, Any] | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    horizon: HorizonNode | None = None
    enough: Annotated[float | None, Quantity("")] = None
    not_finite: Literal["raise", "halve"] = "raise"

    def conflicts(self) -> Iterator[tuple[Place, str]]:
        try:
            self.build()
        except InputError as error:
            yield (), str(error)

    def build(self) -> "Search":
        """The settings as `train` takes them."""
        from gradsim.control.horizon import Horizon
        from gradsim.control.search import Search

        own = {key: value for key, value in self if value is not None}
        if self.horizon is not None:
            own["horizon"] = Horizon(self.horizon.first, self.horizon.iterations)
        return Search(**own)
