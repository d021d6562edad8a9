"""The paper's data set: 14 objects thrown at a ground, each determined by its number, and their videos."""

from gradsim.dataset.reader import DatasetReader
from gradsim.dataset.rigid import OBJECTS
from gradsim.dataset.sample import KINDS, Sample, sample, test_numbers
from gradsim.dataset.torch_dataset import VideoDataset

__all__ = ["KINDS", "OBJECTS", "DatasetReader", "Sample", "VideoDataset", "sample", "test_numbers"]
