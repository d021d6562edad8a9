"""The paper's data set: 14 objects thrown at a ground, each scene drawn by its number alone."""

from gradsim.dataset.rigid import OBJECTS
from gradsim.dataset.sample import KINDS, Sample, sample, test_numbers

__all__ = ["KINDS", "OBJECTS", "Sample", "sample", "test_numbers"]
