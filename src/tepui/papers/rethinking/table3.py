"""Table 3: a pretrained ResNet-18 on TinyImageNet."""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table3", "tiny_imagenet", "resnet18_pretrained")
