"""Table 2: ResNet-18 on CIFAR-100."""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table2", "cifar100", "resnet18")
