"""Table 2: ResNet-18 on CIFAR-100.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): accuracy on
cifar100: baseline 0.7033 ± 0.0083, baseline_sam 0.6883 ± 0.013, augmentation 0.6717 ±
0.012, augmentation_sam 0.6783 ± 0.01, weight_decay 0.705 ± 0.0087.
"""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table2", "cifar100", "resnet18")
