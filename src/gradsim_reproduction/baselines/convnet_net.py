"""The network that the paper's tables call ConvLSTM and its H.2 describes: a video in, physical parameters out.

EfficientNet-B0 (Tan and Le 2019) on every frame of 64 × 64 pixels gives 2 × 2 × 1280 features; convolutions
(1280, 128, 1) and (128, 32, 1) without activation leave 2 × 2 × 32, which 60 frames make 7680 numbers (the 4 × 4 of
Section 4.1 does not fit that); linear layers [7680, 1024, 100, 100, 100, 5] with ReLU between them follow.

The backbone comes from the library `transformers`, without weights: there are none with it, and a file can bring them.
"""

import itertools
import math
import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

from gradsim.errors import InputError
from gradsim.runtime.optional import require_extra

HIDDEN = (1024, 100, 100, 100)
# `EfficientNetConfig` describes B7 by default, and carries TensorFlow's momentum of batch normalisation, which is the
# part that is kept, into PyTorch, where it is the part that is replaced: 0.99 would forget all but the last batch.
B0 = {"width_coefficient": 1.0, "depth_coefficient": 1.0, "hidden_dim": 1280, "batch_norm_momentum": 0.1}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, which weights from elsewhere expect


class ConvNet(nn.Module):
    """The network; `features` and `head` one after the other.

    Args:
        outputs: Numbers to predict.
        frames: Frames of a video.
        size: Width and height of a frame [px], a multiple of 32.
        config: Differences from EfficientNet-B0, as `transformers.EfficientNetConfig` names it.

    Raises:
        InputError: If `transformers` is not installed.
    """

    def __init__(self, outputs: int, frames: int = 60, size: int = 64, config: dict | None = None):
        super().__init__()
        library = require_extra("transformers", "the ConvNet", "baselines")
        described = library.EfficientNetConfig(**{**B0, "image_size": size, **(config or {})})
        self.backbone = library.EfficientNetModel(described)
        self.backbone.apply(init_layer)
        self.convolutions = nn.Sequential(nn.Conv2d(described.hidden_dim, 128, 1), nn.Conv2d(128, 32, 1))
        widths = (frames * 32 * (size // 32) ** 2, *HIDDEN, outputs)
        layers = [m for pair in itertools.pairwise(widths) for m in (nn.Linear(*pair), nn.ReLU())]
        self.linear = nn.Sequential(*layers[:-1])

    def forward(self, videos: Tensor) -> Tensor:
        """Predictions (batch, outputs) from videos (batch, frames, size, size, 3) of bytes."""
        return self.head(self.features(videos))

    def features(self, videos: Tensor, learnt: Tensor | None = None) -> Tensor:
        """Features of videos by the backbone: (batch, frames, 1280, size / 32, size / 32).

        Args:
            videos: Bytes (batch, frames, size, size, 3).
            learnt: Frames (k,) that the backbone's gradient comes from, the others being drawn without; None: all.
        """
        if learnt is not None:
            with torch.no_grad():
                features = self.features(videos)
            return features.index_copy(1, learnt, self.features(videos[:, learnt]))
        images = (videos.flatten(0, 1) / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
        with bfloat16_autocast():
            features = self.backbone(images.permute(0, 3, 1, 2)).last_hidden_state  # channels last, as the bytes lie
        return features.unflatten(0, videos.shape[:2])

    def head(self, features: Tensor) -> Tensor:
        """Predictions (batch, outputs) from features."""
        with bfloat16_autocast():
            narrowed = self.convolutions(features.flatten(0, 1)).unflatten(0, features.shape[:2])
            return self.linear(narrowed.flatten(1)).float()

    def load_backbone(self, path: Path) -> None:
        """Read the backbone's weights: a state dictionary of `EfficientNetModel`, or of a model that has it.

        Raises:
            InputError: If the file is not a state dictionary, or one of another network.
        """
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            state = {key.removeprefix("efficientnet."): value for key, value in state.items()}
            names = self.backbone.state_dict()
            self.backbone.load_state_dict({key: value for key, value in state.items() if key in names})
        except (OSError, RuntimeError, AttributeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            first = str(error).partition("\n")[0]
            raise InputError(
                f"{path} does not hold the weights of an EfficientNet-B0 ({first}); save them as "
                "torch.save(EfficientNetModel.from_pretrained(...).state_dict(), path)."
            ) from None


def init_layer(layer: nn.Module) -> None:
    """First weights of a layer, as Tan and Le have them: variance 2 / fan-out of convolutions, scale 1 of normalisation.

    `transformers` draws that scale from N(0, 0.02²), and after its fifty layers nothing is left of an image. It does not
    matter where weights are read.
    """
    if isinstance(layer, nn.Conv2d):
        fan_out = layer.out_channels * layer.kernel_size[0] * layer.kernel_size[1] / layer.groups
        nn.init.normal_(layer.weight, std=math.sqrt(2 / fan_out))
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.ones_(layer.weight)
        nn.init.zeros_(layer.bias)


def bfloat16_autocast() -> torch.autocast:
    """Convolutions and products in bfloat16 where this processor has it: three times as fast."""
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.ops.mkldnn._is_mkldnn_bf16_supported())
