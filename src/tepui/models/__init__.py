"""Models, one architecture in each file."""

from tepui.models.base import Model
from tepui.models.convnet import ConvNet
from tepui.models.mlp import MLP
from tepui.models.resnet import ResNet18

__all__ = ["MLP", "ConvNet", "Model", "ResNet18"]
