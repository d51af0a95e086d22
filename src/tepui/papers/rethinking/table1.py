"""Table 1: ResNet-18 on CIFAR-10.

Measured at small size, with stand-ins (n = 5; aarch64, torch 2.13.0+cpu): accuracy on
cifar10: baseline 0.9411 ± 0.0054, baseline_sam 0.9383 ± 0.0054, augmentation 0.9161 ±
0.018, augmentation_sam 0.9172 ± 0.018, weight_decay 0.94 ± 0.0052.
"""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table1", "cifar10", "resnet18")
