"""Table 5: VGG-19 on CIFAR-100."""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table5", "cifar100", "vgg19")
