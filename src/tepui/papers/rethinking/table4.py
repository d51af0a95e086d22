"""Table 4: VGG-19 on CIFAR-10."""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table4", "cifar10", "vgg19")
