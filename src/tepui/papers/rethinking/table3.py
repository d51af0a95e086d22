"""Table 3: a pretrained ResNet-18 on TinyImageNet.

Measured at small size, with stand-ins (n = 3; aarch64, torch 2.13.0+cpu): accuracy on
tiny_imagenet: baseline 0.3083 ± 0.012, baseline_sam 0.3283 ± 0.024, augmentation 0.3267
± 0.0044, augmentation_sam 0.3233 ± 0.012, weight_decay 0.31 ± 0.0076.
"""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table3", "tiny_imagenet", "resnet18_pretrained")
