"""Deformable bodies and cloths are kept, read and exported like rigid ones; their motion is that of vertices."""

import numpy as np
import pyarrow.parquet
import pytest

from gradsim.dataset import DatasetReader, VideoDataset, sample
from gradsim.dataset.generate import generate
from gradsim.dataset.lerobot import export_lerobot
from gradsim.dataset.render import render_sample
from gradsim.dataset.verify import verify


@pytest.mark.parametrize("kind", ["deformable", "cloth"])
def test_soft_kinds_go_all_the_way(kind, tmp_path):
    generate(kind, 2, tmp_path / "D", sizes=(32,), unit=2)
    assert verify(tmp_path / "D").whole
    recordings, drawn = DatasetReader(tmp_path / "D"), render_sample(sample(kind, 1), (32,))
    np.testing.assert_array_equal(recordings.states(1)["body.x"].reshape(60, -1, 3), drawn.states["body.x"])
    frames, truth = VideoDataset(tmp_path / "D")[1]
    np.testing.assert_array_equal((frames.permute(0, 2, 3, 1) * 255).round().byte().numpy(), drawn.frames[32])
    assert truth.tolist() == pytest.approx(list(sample(kind, 1).truth.values()))
    export_lerobot(tmp_path / "D", tmp_path / "E")
    table = pyarrow.parquet.read_table(tmp_path / "E/data/chunk-000/file-000.parquet")
    state = np.array(table["observation.state"].to_pylist())[60:]
    np.testing.assert_allclose(state[:, :3], drawn.states["body.x"].mean(1), atol=1e-6)  # float32
