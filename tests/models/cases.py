"""Every model at its smallest, and inputs for it."""

import torch

import tepui.models
from tepui.data import Arrays
from tepui.models import Model

IMAGE = {"num_classes": 7, "in_channels": 2}
CASES = {
    "Albert": (
        {
            "num_classes": 7,
            "vocabulary": 20,
            "embedding": 6,
            "width": 8,
            "depth": 2,
            "heads": 2,
            "length": 9,
        },
        (9,),
    ),
    "ConvNet": ({**IMAGE, "width": 4}, (2, 9, 8)),
    "MLP": ({"in_features": 24, "hidden": (16, 12), "num_classes": 7}, (2, 3, 4)),
    "ResNet18": ({**IMAGE, "width": 4}, (2, 8, 8)),
    "VGG19": ({**IMAGE, "width": 8}, (2, 32, 32)),
    "VGG19BN": ({**IMAGE, "width": 4}, (2, 32, 32)),
    "ViTSmall": ({**IMAGE, "image_size": 8, "patch_size": 4, "depth": 1}, (2, 8, 8)),
    "ViTTiny": ({**IMAGE, "image_size": 8, "patch_size": 4, "depth": 2}, (2, 8, 8)),
    "WideResNet40x2": ({**IMAGE, "width": 2}, (2, 8, 8)),
}
NAMES = sorted(
    name
    for name in tepui.models.__all__
    if isinstance(kind := getattr(tepui.models, name), type)
    and issubclass(kind, Model)
    and kind is not Model
)


def built(name):
    return getattr(tepui.models, name)(**CASES[name][0])


def data(name, samples=6):
    """Inputs that the smallest model of a name takes, with seven classes."""
    stream = torch.Generator().manual_seed(0)
    shape = CASES[name][1]
    targets = torch.arange(samples) % 7
    if name != "Albert":
        return Arrays(torch.randn(samples, *shape, generator=stream), targets)
    ids = torch.randint(3, 20, (samples, *shape), generator=stream)
    lengths = torch.randint(5, 10, (samples, 1), generator=stream)
    mask = (torch.arange(*shape) < lengths).long()
    second = (torch.arange(*shape) > 3).long() * mask
    inputs = {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": second}
    return Arrays(inputs, targets)
