"""The wrappers of other libraries' models as classes, which options can name."""

from jsonargparse import class_from_function  # type: ignore[attr-defined]
from torch.nn import Module

from tepui import models

timm = class_from_function(models.from_timm, Module, name="timm")
huggingface = class_from_function(models.from_huggingface, Module, name="huggingface")
