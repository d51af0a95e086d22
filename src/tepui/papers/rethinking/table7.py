"""Table 7: a vision transformer on CIFAR-10."""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table7", "cifar10", "vit")
