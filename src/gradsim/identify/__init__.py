"""From what was seen to the physics that made it, with error bars and a verdict."""

import sys
from types import ModuleType

from gradsim.identify.compare import Comparison, compare
from gradsim.identify.descent import descend
from gradsim.identify.estimate import identify, least_squares
from gradsim.identify.estimate_fields import identify_fields
from gradsim.identify.explain import Explanation, explain_gradients
from gradsim.identify.field_fit import FieldFit
from gradsim.identify.fields import Field
from gradsim.identify.fit import Estimate, Fit
from gradsim.identify.long_clip import Shooting
from gradsim.identify.multistart import Search
from gradsim.identify.observation import Masks, States
from gradsim.identify.pictures import Pictures
from gradsim.identify.pieces import Pieces
from gradsim.identify.smooth import Smooth
from gradsim.identify.together import identify_many
from gradsim.identify.unknowns import Unknown
from gradsim.identify.vertices import Vertices
from gradsim.identify.views import Views

__all__ = [
    "Comparison",
    "Estimate",
    "Explanation",
    "Field",
    "FieldFit",
    "Fit",
    "Masks",
    "Pictures",
    "Pieces",
    "Search",
    "Shooting",
    "Smooth",
    "States",
    "Unknown",
    "Vertices",
    "Views",
    "compare",
    "descend",
    "explain_gradients",
    "identify",
    "identify_fields",
    "identify_many",
    "least_squares",
]


class _Callable(ModuleType):
    """`gradsim.identify` is a package and, as the public name, the function in it: whichever is found, a call works."""

    def __call__(self, *args, **kwargs) -> Fit:
        return identify(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
