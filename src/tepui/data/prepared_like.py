"""Images of one set in the form of another: its size, channels and normalization.

A model then sees them as it saw its own images: what is unfamiliar is their content and
not their scale.
"""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tepui.core.checks import require
from tepui.data.arrays import Arrays, Normalize
from tepui.data.image_files import Frame, ImageFiles
from tepui.data.stored import StoredData, whole

_AT_ONCE = 1024
# ITU-R 601: how bright red, green and blue look; what Pillow's gray is made of.
_GRAY = (0.299, 0.587, 0.114)


def prepared_like(dataset: Dataset[Any], like: Dataset[Any]) -> Dataset[Any]:
    """Return images in the form that a model expects: that of another data set.

    Images are scaled to cover the other set's shape, which is then cut from the center;
    color becomes gray by its brightness, gray is repeated in all channels; the other
    set's normalization replaces that of the images.

    Args:
        dataset: The images: ``Arrays``, ``ImageFiles``, or a ``Subset`` of either. Any
            other set is returned as it is, since only its own code can prepare it.
        like: The set that gives the form, of the same kinds or any that stays in
            storage; with any other, the images are returned as they are.

    Returns:
        The images, in the same order; the same object where nothing has to change.

    Raises:
        ValueError: If channels differ and are not one and three, or images in files
            would not be square.

    Example:
        >>> small = Arrays(torch.rand(2, 1, 8, 8), torch.tensor([0, 1]))
        >>> large = Arrays(torch.rand(3, 3, 32, 20), torch.zeros(3))
        >>> prepared_like(large, small).inputs.shape
        torch.Size([3, 1, 8, 8])
    """
    form = whole(like)
    shape = image_shape(form) if isinstance(form, Arrays | StoredData) else None
    if not isinstance(form, Arrays | StoredData) or shape is None:
        return dataset
    return in_form(dataset, shape, form.normalize)


def in_form(
    dataset: Dataset[Any], shape: tuple[int, ...], normalize: Normalize | None
) -> Dataset[Any]:
    """Return images of a shape and with a normalization; other data as they are."""
    if isinstance(dataset, Subset):
        parent = in_form(dataset.dataset, shape, normalize)
        return dataset if parent is dataset.dataset else Subset(parent, dataset.indices)
    if isinstance(dataset, Arrays):
        return _arrays_in_form(dataset, shape, normalize)
    if isinstance(dataset, ImageFiles):
        return _files_in_form(dataset, shape, normalize)
    return dataset


def image_shape(dataset: Dataset[Any]) -> tuple[int, ...] | None:
    """Return channels, height and width of a data set's images."""
    if isinstance(dataset, ImageFiles) and dataset.shape is not None:
        return dataset.shape
    first = dataset[0][0]
    image = isinstance(first, Tensor) and first.ndim == 3
    return tuple(first.shape) if image else None


def _arrays_in_form(
    dataset: Arrays, shape: tuple[int, ...], normalize: Normalize | None
) -> Arrays:
    present = image_shape(dataset)
    if present is None or (present == shape and dataset.normalize == normalize):
        return dataset
    assert isinstance(dataset.inputs, Tensor)
    images = images_in_form(dataset.inputs, shape)
    return Arrays(images, dataset.targets, normalize, dataset.classes)


def _files_in_form(
    dataset: ImageFiles, shape: tuple[int, ...], normalize: Normalize | None
) -> ImageFiles:
    channels, height, width = shape
    framed = dataset.frame is not None and image_shape(dataset) == shape
    if framed and dataset.normalize == normalize:
        return dataset
    rule = "hold square images, gray or in color, to give files their form"
    require(channels in (1, 3) and height == width, "like", rule, shape)
    frame = replace(dataset.frame or Frame(width), size=width)
    return ImageFiles(
        dataset.files,
        dataset.targets,
        frame=frame,
        gray=channels == 1,
        normalize=normalize,
        classes=dataset.classes,
    )


def images_in_form(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return images in another size and with other channels."""
    if tuple(images.shape[1:]) == shape:
        return images
    parts = images.split(_AT_ONCE)
    return torch.cat([_channels(_resized(p, shape), shape[0]) for p in parts])


def _resized(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Scale images until they cover the shape, then cut it from the center."""
    _, height, width = shape
    if images.shape[2:] == (height, width):
        return images
    scale = max(height / images.shape[2], width / images.shape[3])
    pairs = zip(shape[1:], images.shape[2:], strict=True)
    sides = [max(side, round(old * scale)) for side, old in pairs]
    scaled = F.interpolate(images.float(), sides, mode="bilinear", antialias=True)
    top, left = (sides[0] - height) // 2, (sides[1] - width) // 2
    cut = scaled[:, :, top : top + height, left : left + width]
    return _as_type(cut, images.dtype)


def _channels(images: Tensor, channels: int) -> Tensor:
    present = images.shape[1]
    if present == channels:
        return images
    others = "1 or 3" if channels in (1, 3) else f"1, 3 or {channels}"
    rule = f"hold images (samples, channels, height, width) of {others} channels"
    require({present, channels} == {1, 3}, "dataset", rule, present)
    if present == 1:
        return images.expand(-1, channels, -1, -1)
    weights = torch.tensor(_GRAY, device=images.device)[:, None, None]
    return _as_type((images.float() * weights).sum(1, keepdim=True), images.dtype)


def _as_type(images: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.uint8:
        images = images.round().clamp(0, 255)
    return images.to(dtype)
