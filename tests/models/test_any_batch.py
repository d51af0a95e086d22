"""Models that are traced into a graph take batches of any size from it."""

import pytest
import torch
from torch import nn

from tepui.models import (
    MLP,
    VGG19BN,
    Albert,
    ConvNet,
    ResNet18,
    ViTTiny,
    WideResNet40x2,
)

IMAGES = torch.rand(3, 1, 32, 32)
TOKENS = torch.randint(0, 20, (3, 6))
SMALL = {"in_channels": 1, "width": 4}
MODELS = {
    "MLP": (lambda: MLP(in_features=1024, hidden=(4,)), IMAGES),
    "ConvNet": (ConvNet, IMAGES),
    "ViT": (lambda: ViTTiny(in_channels=1, depth=1), IMAGES),
    "Albert": (lambda: Albert(vocabulary=20, width=8, heads=2, depth=1), TOKENS),
    "ResNet18": (lambda: ResNet18(**SMALL), IMAGES),
    "VGG19BN": (lambda: VGG19BN(**SMALL), IMAGES),
    "WideResNet": (lambda: WideResNet40x2(**SMALL), IMAGES),
}


class _Called(nn.Module):
    """Gives the one input a name, which models leave open."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs):
        return self.model(inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_batches_of_any_size(name):
    make, inputs = MODELS[name]
    model = make().eval()
    graph = _Called(model).eval()
    shapes = ({0: torch.export.Dim("batch", min=1)},)
    with torch.no_grad():
        program = torch.export.export(graph, (inputs,), dynamic_shapes=shapes)
        for size in (1, 2, 5):
            batch = inputs[torch.arange(size) % 3]
            torch.testing.assert_close(program.module()(batch), model(batch))
