"""Weights that torchvision published, in tepui's models.

The caller reads a file of them, for example with
``torch.load(file, weights_only=True)``; here only names are translated and shapes
checked, so torchvision itself is not needed.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.models.resnet import ResNet18
from tepui.models.vgg import VGG19, VGG19BN

HEAD = "classifier"


def load_torchvision(
    model: ResNet18 | VGG19 | VGG19BN, state: Mapping[str, Tensor]
) -> bool:
    """Load torchvision's weights of the same architecture.

    A classifier for another number of classes stays as it is, so that a model with a
    new head starts from the published body.

    Args:
        model: A model with the ImageNet stem or head; nothing is changed if the
            weights do not fit.
        state: torchvision's state dict of ``resnet18``, ``vgg19`` or ``vgg19_bn``.

    Returns:
        Whether the classifier was loaded too.

    Raises:
        ValueError: If names or shapes do not fit.

    Example:
        >>> published = {"fc.weight": torch.zeros(1000, 512)}
        >>> load_torchvision(ResNet18(stem="imagenet"), published)
        Traceback (most recent call last):
        ValueError: state must hold the weights of ResNet18, got missing ['conv1.weight', 'bn1.weight', 'bn1.bias'] (101) and unexpected [] (0)
    """  # noqa: E501 - a doctest must show the whole message
    ours = model.state_dict()
    names = tensor_names(ours, model.torchvision_names())
    names = {n: theirs for n, theirs in names.items() if _is_needed(theirs, state)}
    missing = [theirs for theirs in names.values() if theirs not in state]
    unexpected = sorted(state.keys() - names.values())
    if missing or unexpected:
        raise ValueError(
            f"state must hold the weights of {type(model).__name__}, got missing "
            f"{missing[:3]} ({len(missing)}) and unexpected {unexpected[:3]} "
            f"({len(unexpected)})"
        )
    classes = len(state[names[f"{HEAD}.weight"]])
    with_head = classes == model.classifier.out_features
    loaded = {
        name: state[theirs]
        for name, theirs in names.items()
        if with_head or not name.startswith(HEAD)
    }
    for name, tensor in loaded.items():
        shape, argument = tuple(ours[name].shape), f"state[{names[name]!r}]"
        rule = f"have shape {shape}"
        require(tensor.shape == shape, argument, rule, tuple(tensor.shape))
    with torch.no_grad():
        for name, tensor in loaded.items():
            ours[name].copy_(tensor)
    return with_head


def tensor_names(tensors: Iterable[str], parts: Mapping[str, str]) -> dict[str, str]:
    """Map every tensor of a model to its name in another program.

    Example:
        >>> tensor_names(["classifier.bias"], {"classifier": "fc"})
        {'classifier.bias': 'fc.bias'}
    """
    names = {}
    for name in tensors:
        part = next(part for part in parts if name.startswith(f"{part}."))
        names[name] = f"{parts[part]}{name.removeprefix(part)}"
    return names


def _is_needed(name: str, state: Mapping[str, Tensor]) -> bool:
    """Files from before torch 0.4.1 do not count the batches BatchNorm has seen."""
    return name in state or not name.endswith(".num_batches_tracked")
