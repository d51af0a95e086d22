"""Table 4: VGG-19 on CIFAR-10.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): accuracy on
cifar10: baseline 0.8083 ± 0.036, baseline_sam 0.825 ± 0.028, augmentation 0.4 ± 0.06,
augmentation_sam 0.625 ± 0.012, weight_decay 0.7 ± 0.13.
"""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table4", "cifar10", "vgg19")
