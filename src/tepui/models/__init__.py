"""Models, one architecture in each file."""

from tepui.models.adapters import LoRA
from tepui.models.albert import Albert
from tepui.models.base import Model
from tepui.models.convnet import ConvNet
from tepui.models.from_huggingface import from_huggingface
from tepui.models.from_timm import from_timm
from tepui.models.mlp import MLP
from tepui.models.preprocess import Preprocess, Resize
from tepui.models.resnet import ResNet18
from tepui.models.split import (
    Frozen,
    OnFeatures,
    Split,
    split_last_layers,
    without_classifier,
)
from tepui.models.torchvision_weights import load_torchvision
from tepui.models.vgg import VGG19, VGG19BN
from tepui.models.vit import ViTSmall, ViTTiny
from tepui.models.wide_resnet import WideResNet40x2

__all__ = [
    "MLP",
    "VGG19",
    "VGG19BN",
    "Albert",
    "ConvNet",
    "Frozen",
    "LoRA",
    "Model",
    "OnFeatures",
    "Preprocess",
    "ResNet18",
    "Resize",
    "Split",
    "ViTSmall",
    "ViTTiny",
    "WideResNet40x2",
    "from_huggingface",
    "from_timm",
    "load_torchvision",
    "split_last_layers",
    "without_classifier",
]
