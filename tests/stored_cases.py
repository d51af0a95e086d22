"""The same samples in memory and in storage of every kind."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from tepui.data import Arrays, ArraysOnDisk, ImageFiles, Normalize

NORMALIZE = Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.2))
KINDS = ("npy", "channels_last", "safetensors", "image_files")
CLASSES = 3


def in_memory(samples=24, size=4):
    """Images in bytes that can be told apart by their brightness."""
    stream = torch.Generator().manual_seed(0)
    labels = torch.arange(samples) % CLASSES
    noise = torch.randint(0, 60, (samples, 3, size, size), generator=stream)
    images = (noise + 60 * labels[:, None, None, None]).to(torch.uint8)
    return Arrays(images, labels, NORMALIZE)


def stored(kind, arrays, folder: Path):
    """Return what is equal to the arrays, but stays in files of a kind."""
    images, labels, normalize = arrays.inputs, arrays.targets, arrays.normalize
    if kind == "safetensors":
        save_file({"x": images}, folder / "x.safetensors")
        return ArraysOnDisk(folder / "x.safetensors", labels, normalize)
    pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
    if kind == "image_files":
        return _image_files(pixels, labels, normalize, folder)
    last = kind == "channels_last"
    np.save(folder / "x.npy", pixels if last else images.numpy())
    np.save(folder / "y.npy", labels.numpy())
    files = folder / "x.npy", folder / "y.npy"
    return ArraysOnDisk(*files, normalize, channels="last" if last else "first")


class FilesBeyondMemory(ImageFiles):
    """Image files that are never all decoded at once."""

    held = None


def _image_files(pixels, labels, normalize, folder):
    files = [folder / f"{number}.png" for number in range(len(pixels))]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file)
    return FilesBeyondMemory(files, labels, normalize=normalize)
