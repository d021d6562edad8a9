"""Meanings of keys come from docstrings, also of bases and of entries with several keys."""

from pydantic import Field

from gradsim.scene.node import Node
from gradsim.scene.reference.docstring import meanings, paragraphs, summary


class Base(Node):
    """Not shown.

    Attributes:
        depth: Depth of the base [m].
        width: Width [m].
    """

    depth: float = 0.0
    width: float = 0.0


class Example(Base):
    """An example that is longer
    than a line.

        a = b + c

    More words.

    Attributes:
        mass: Mass [kg], or
        density: density: [kg/m³].
        lower, upper: Limits,
            which continue here.
        depth: Depth of the example [m].
    """

    mass: float = 1.0
    density: float = 1.0
    lower: float = 0.0
    upper: float = 0.0
    size: float = Field(default=1.0, description="the size in m")
    silent: float = 0.0
    named: float = Field(default=1.0, alias="other", description="a number")


def test_meanings_are_those_of_the_nearest_docstring():
    assert meanings(Example) == {
        "depth": "Depth of the example [m].",
        "width": "Width [m].",
        "mass": "Mass [kg]; or give `density`.",
        "density": "Instead of `mass`: density: [kg/m³].",
        "lower": "Limits, which continue here.",
        "upper": "Limits, which continue here.",
        "size": "The size in m.",
        "other": "A number.",
    }


def test_paragraphs_end_before_the_attributes():
    assert summary(Example) == "An example that is longer than a line."
    assert paragraphs(Example) == ["An example that is longer than a line.", "    a = b + c", "More words."]
