"""From what was seen to the physics that made it, with error bars and a verdict."""

from gradsim.identify.compare import Comparison, compare
from gradsim.identify.descent import descend
from gradsim.identify.estimate import identify, least_squares
from gradsim.identify.explain import Explanation, explain_gradients
from gradsim.identify.fit import Estimate, Fit
from gradsim.identify.long_clip import Shooting
from gradsim.identify.multistart import Search
from gradsim.identify.observation import Masks, States
from gradsim.identify.together import identify_many
from gradsim.identify.unknowns import Unknown
from gradsim.identify.vertices import Vertices
from gradsim.identify.views import Views

__all__ = [
    "Comparison",
    "Estimate",
    "Explanation",
    "Fit",
    "Masks",
    "Search",
    "Shooting",
    "States",
    "Unknown",
    "Vertices",
    "Views",
    "compare",
    "descend",
    "explain_gradients",
    "identify",
    "identify_many",
    "least_squares",
]
