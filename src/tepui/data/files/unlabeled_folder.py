"""Unlabeled images, for what a model should not recognize.

Every label is -1, which every loss and accuracy refuses.
"""

from pathlib import Path
from typing import final

from tepui.core.checks import require
from tepui.data.arrays import Arrays
from tepui.data.files.origins import require_folder
from tepui.data.image_files import (
    IMAGENET,
    Frame,
    ImageFiles,
    images_in,
)
from tepui.data.prepared_like import image_shape

NO_LABEL = -1


@final
class UnlabeledFolder(ImageFiles):
    """All images in a folder and below it, without labels.

    Args:
        path: The folder.
        size: Side of the images in pixels, as in :class:`tepui.data.ImageFolder`.
        like: A data set whose size of images and normalization to take instead, so
            that a model trained on it sees these images as it saw those.

    Raises:
        FileNotFoundError: If the folder is missing.
        ValueError: If it holds no images, or ``like`` holds no square color images.
    """

    def __init__(
        self,
        path: str | Path,
        size: int | None = None,
        like: Arrays | ImageFiles | None = None,
    ) -> None:
        folder = Path(path)
        require_folder(folder)
        files = images_in(folder)
        require(len(files) > 0, str(folder), "hold images", "none")
        if like is not None:
            shape = image_shape(like) or ()
            square = len(shape) == 3 and shape == (3, shape[1], shape[1])
            require(square, "like", "hold square color images", shape)
            size = shape[1]
        super().__init__(
            files,
            [NO_LABEL] * len(files),
            frame=None if size is None else Frame(size),
            normalize=IMAGENET if like is None else like.normalize,
        )
