"""Common corruptions of images, five severities each, batched and seeded.

The fifteen standard and four extra types behind CIFAR-10-C, Tiny-ImageNet-C and
ImageNet-C, for images of any size and any number of channels, on CPU and GPU. The
types are in ``pixels`` and ``weather``, and ``apply`` calls them. Random
numbers come from one counter-based stream for each image, so the bytes are not those of
the released sets; other differences are listed in ``docs/data.md``.

References:
    Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR.
"""
