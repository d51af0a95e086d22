"""Table 6: a pretrained VGG-19 with BatchNorm on TinyImageNet."""

from tepui.papers.rethinking.six_controls import table

RECIPE = table("table6", "tiny_imagenet", "vgg19_bn_pretrained")
