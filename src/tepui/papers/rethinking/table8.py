"""Table 8: a vision transformer on CIFAR-100.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): accuracy on
cifar100: baseline 0.7567 ± 0.0017, baseline_sam 0.7583 ± 0.0044, augmentation 0.65 ±
0.016, augmentation_sam 0.6383 ± 0.012, weight_decay 0.7583 ± 0.0033.
"""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table8", "cifar100", "vit")
