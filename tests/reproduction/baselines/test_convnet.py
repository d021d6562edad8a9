import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from gradsim.dataset import sample
from gradsim.errors import InputError
from gradsim.runtime.progress import NullProgress
from gradsim_reproduction.baselines import convnet
from gradsim_reproduction.baselines.convnet_net import ConvNet
from gradsim_reproduction.baselines.convnet_training import Clips, Schedule, predict, train

# EfficientNet's family, as small as it gets: 4 channels in every block, few blocks
TINY = {"width_coefficient": 0.1, "depth_coefficient": 0.1, "hidden_dim": 128, "drop_connect_rate": 0.1}
NUMBERS = {"train": [0, 1, 2], "test": [4]}
FRAMES = 12
VALUES = {f"body.{name}": 1.0 for name in convnet.PAPER}
ROW = {"number": 4, "object": "cup", "truth": VALUES, "values": VALUES, "cpu_seconds": 0.0}


class Short(Clips):
    """Every fifth frame alone."""

    def videos(self, numbers):
        return super().videos(numbers)[:, :: 60 // FRAMES]


def net() -> ConvNet:
    torch.manual_seed(0)
    return ConvNet(outputs=5, frames=FRAMES, config=TINY)


@pytest.fixture(scope="module")
def clips(tmp_path_factory) -> Clips:
    pytest.importorskip("transformers")
    return Short(tmp_path_factory.mktemp("videos"), range(5), seed=0)


def test_labels_are_truths_over_their_ranges_and_back(clips):
    labels = clips.labels([0, 4])
    truth = sample("rigid", 4).truth
    assert labels.abs().max() <= 1 and labels[1, 0] == pytest.approx((truth["body.mass"] - 7) / 5, rel=1e-5)
    assert clips.values(labels)[1] == {name: pytest.approx(value, rel=1e-5) for name, value in truth.items()}


def test_videos_are_made_once(clips):
    videos = clips.videos([0, 3])
    assert videos.shape == (2, FRAMES, 64, 64, 3) and videos.dtype == torch.uint8
    assert (videos[0] != videos[1]).any() and (videos[0, 0] != videos[0, -1]).any()
    when = {path: path.stat().st_mtime_ns for path in clips.folder.iterdir()}
    assert torch.equal(clips.videos([0, 3]), videos)
    assert {path: path.stat().st_mtime_ns for path in clips.folder.iterdir()} == when


@torch.no_grad()
def test_the_first_weights_let_images_through(clips):
    """Those of the library do not: they end in 1e-31."""
    features = convnet.network(seed=0).features(clips.videos([0, 1])[:, :2]).float()
    assert features.std(0).mean() > 0.05


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_training_lowers_the_loss_and_goes_on_bit_for_bit(clips, tmp_path):
    whole, schedule = net(), Schedule(whole_epochs=2, head_epochs=6, learnt=4, batch=1, rate=1e-3)
    curves = train(whole, clips, NUMBERS, schedule, tmp_path / "a.pt", 0, NullProgress())
    losses = [epoch["train"] for epoch in curves]
    assert [epoch["whole"] for epoch in curves] == [True] * 2 + [False] * 6
    assert losses[-1] < 0.9 * losses[0]

    for epochs in ((1, 0), (2, 2)):  # interrupted in either part
        path = tmp_path / f"{epochs}.pt"
        train(
            net(),
            clips,
            NUMBERS,
            replace(schedule, whole_epochs=epochs[0], head_epochs=epochs[1]),
            path,
            0,
            NullProgress(),
        )
        again = net()
        told = train(again, clips, NUMBERS, schedule, path, 0, NullProgress())
        assert [{**e, "cpu_seconds": 0} for e in told] == [{**e, "cpu_seconds": 0} for e in curves]
        for name, value in whole.state_dict().items():
            assert torch.equal(again.state_dict()[name], value), name
    assert torch.equal(predict(again, clips, [4]), predict(whole, clips, [4]))


def test_the_head_alone_leaves_the_backbone_as_it_was(clips, tmp_path):
    network = net()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    train(network, clips, NUMBERS, Schedule(0, 1, batch=2), tmp_path / "a.pt", 0, NullProgress())
    moved = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert moved and not any(name.startswith("backbone.") for name in moved)


def test_the_backbone_learns_from_the_frames_that_are_asked_for(clips):
    network = ConvNet(outputs=5, frames=FRAMES, config={**TINY, "batch_norm_momentum": 1.0})
    videos, learnt = clips.videos([0, 1]), torch.tensor([7, 2, 3])
    network.features(videos)  # once in training mode, for the statistics: without them nothing comes through
    network.eval()
    seen = network.features(videos, learnt)
    # in eval mode, frames do not share their statistics; float32 sums of a batch of another size have another order
    assert torch.allclose(seen, network.features(videos), rtol=1e-5, atol=1e-6)
    others = [k for k in range(FRAMES) if k not in learnt.tolist()]
    for frames, told in ((others, False), ([2], True)):
        network.zero_grad()
        seen[:, frames].square().sum().backward(retain_graph=True)
        gradients = [p.grad for p in network.backbone.parameters() if p.grad is not None]
        assert any(g.any() for g in gradients) == told


def test_the_network_is_the_one_of_the_paper():
    pytest.importorskip("transformers")
    network = ConvNet(outputs=5)
    shapes = {name: tuple(p.shape) for name, p in network.named_parameters() if "backbone" not in name}
    weights = [shape for name, shape in shapes.items() if name.endswith("weight")]
    linear = [(1024, 7680), (100, 1024), (100, 100), (100, 100), (5, 100)]
    assert weights == [(128, 1280, 1, 1), (32, 128, 1, 1), *linear]
    # EfficientNet-B0 has 5.3 million parameters with its classifier of 1000 × 1280 (Tan and Le 2019, Table 2)
    count = sum(p.numel() for p in network.backbone.parameters())
    assert (count + 1281 * 1000) / 1e6 == pytest.approx(5.3, abs=0.05)
    with torch.no_grad():
        images = torch.randint(0, 256, (1, 60, 64, 64, 3), dtype=torch.uint8)
        assert network.eval().features(images).shape == (1, 60, 1280, 2, 2)


def test_weights_come_from_a_file(tmp_path):
    pytest.importorskip("transformers")
    source, other = net(), net()
    with torch.no_grad():
        for parameter in source.backbone.parameters():
            parameter.add_(torch.randn_like(parameter))
    # as `EfficientNetForImageClassification` names them, with its classifier
    state = {f"efficientnet.{name}": value for name, value in source.backbone.state_dict().items()}
    torch.save({**state, "classifier.weight": torch.zeros(3, 128)}, tmp_path / "weights.pt")
    other.load_backbone(tmp_path / "weights.pt")
    for name, value in source.backbone.state_dict().items():
        assert torch.equal(other.backbone.state_dict()[name], value)

    torch.save({"encoder.top_conv.weight": torch.zeros(1)}, tmp_path / "wrong.pt")
    (tmp_path / "text.pt").write_text("no weights")
    for file in ("wrong.pt", "text.pt", "missing.pt"):
        with pytest.raises(InputError, match="does not hold the weights"):
            other.load_backbone(tmp_path / file)


def test_the_paper_s_split_is_disjoint():
    numbers = convnet.split_numbers(quick=False)
    assert len(numbers["train"]) == 800 and len(numbers["test"]) == 200
    assert all(sample("rigid", k).split == split for split, own in numbers.items() for k in own[:10])
    assert sorted(numbers["train"] + numbers["test"]) == list(range(1000))


def test_figures_are_means_over_the_test_samples():
    rows = [
        {"truth": {"body.mass": 4.0, "ground.friction": 0.5}, "values": {"body.mass": 5.0, "ground.friction": 0.4}},
        {"truth": {"body.mass": 10.0, "ground.friction": 0.5}, "values": {"body.mass": 7.0, "ground.friction": 0.5}},
    ]
    figures = convnet.summary(
        rows, [{"train": 0.3, "test": 0.2, "whole": True}, {"train": 0.1, "test": 0.4, "whole": False}]
    )
    told = {
        name: figures[name]["value"] for name in ("mass_abs_err", "mass_rel_err", "friction_rel_err", "loss_test_least")
    }
    assert told == pytest.approx(
        {"mass_abs_err": 2, "mass_rel_err": 0.275, "friction_rel_err": 0.1, "loss_test_least": 0.2}
    )
    assert np.isfinite(figures["mass_rel_err_median"]["value"]) and figures["epochs_of_the_whole"]["value"] == 1


def test_a_folder_of_other_first_weights_is_refused(tmp_path, monkeypatch):
    """And does not return its old network."""
    pytest.importorskip("transformers")
    monkeypatch.setattr(convnet, "network", lambda seed, weights: net())
    monkeypatch.setattr(convnet, "_trained", lambda *given: {"curves": [], "rows": [ROW]})
    assert convnet.convnet(tmp_path, quick=True)["rows"] == convnet.convnet(tmp_path, quick=True)["rows"]
    other = net()
    with torch.no_grad():
        next(other.parameters()).view(-1)[0] += 1e-6
    monkeypatch.setattr(convnet, "network", lambda seed, weights: other)
    with pytest.raises(InputError, match=r"other settings \(begun"):
        convnet.convnet(tmp_path, quick=True)


def test_missing_transformers_are_named_with_their_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r'pip install "gradsim\[baselines\]"'):
        ConvNet(outputs=5)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_quick_form_tells_its_rows(tmp_path):
    pytest.importorskip("transformers")
    result = convnet.convnet(tmp_path / "convnet", quick=True)
    assert len(result["rows"]) == 6 and result["figures"]["loss_train"]["value"] < 1 / 3
    rows = convnet.rows([9, 4], 0, tmp_path / "table2", quick=True, unknowns=("ground.friction",))
    assert [r["number"] for r in rows] == [4, 9] and set(rows[0]["values"]) == {"ground.friction"}
    with pytest.raises(InputError, match="other settings"):
        convnet.convnet(tmp_path / "convnet", quick=True, epochs=3)
