"""Table 6: a pretrained VGG-19 with BatchNorm on TinyImageNet.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): accuracy on
tiny_imagenet: baseline 0.225 ± 0.021, baseline_sam 0.1567 ± 0.0083, augmentation 0.18 ±
0.018, augmentation_sam 0.1667 ± 0.028, weight_decay 0.185 ± 0.025.
"""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table6", "tiny_imagenet", "vgg19_bn_pretrained")
