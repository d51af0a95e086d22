"""Table 1: ResNet-18 on CIFAR-10."""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table1", "cifar10", "resnet18")
