"""Table 5: VGG-19 on CIFAR-100.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): accuracy on
cifar100: baseline 0.6683 ± 0.0044, baseline_sam 0.6067 ± 0.017, augmentation 0.535 ±
0.036, augmentation_sam 0.4783 ± 0.049, weight_decay 0.6767 ± 0.025.
"""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table5", "cifar100", "vgg19")
