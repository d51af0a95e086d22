"""Table 7: a vision transformer on CIFAR-10.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): accuracy on
cifar10: baseline 0.8565 ± 0.0081, baseline_sam 0.8565 ± 0.0065, augmentation 0.637 ±
0.025, augmentation_sam 0.5704 ± 0.032, weight_decay 0.8556 ± 0.0089.
"""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table7", "cifar10", "vit")
