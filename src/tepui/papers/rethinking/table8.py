"""Table 8: a vision transformer on CIFAR-100."""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table8", "cifar100", "vit")
