"""What was done to training data before a model saw them, so that raw inputs may come.

It is a plain value: a file holds it as JSON, and nothing of it is code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tepui.core.checks import have_values, require
from tepui.data.arrays import (
    Arrays,
    Inputs,
    Normalize,
    are_images_of_bytes,
    prepared,
)
from tepui.data.arrays_on_disk import ArrayFile, rows_in
from tepui.data.columns import Column, DataFrame
from tepui.data.corruptions.filters import gray
from tepui.data.image_files import Frame, ImageFiles, files_at, image_shape
from tepui.data.labels import NO_LABEL, class_names, relabel
from tepui.data.loading import as_arrays
from tepui.data.stored import StoredData, whole
from tepui.data.table import Table, is_frame, read_frame, rows_as
from tepui.data.texts import HuggingFaceTokenizer, Tokenizer

_AT_ONCE = 1024


@final
@dataclass(frozen=True)
class Preparation:
    """How raw inputs become what a model sees.

    Attributes:
        normalize: Applied to images, vectors and tables; None scales images of bytes to
            ``[0, 1]`` and leaves other numbers alone.
        shape: Channels, height and width of images; None where inputs are no images.
        frame: How images in files are resized and cropped; without it, to cover the
            shape.
        tokenizer: What turns texts into numbers; None where inputs are no texts.
        length: The largest number of tokens of a text.
        classes: Names of the classes, where they have names.
        columns: How the cells of a table become numbers; empty if inputs are no tables.
        units: Mean and standard deviation of the numbers that a table has to predict,
            which a model sees standardized.
        of_bytes: Whether inputs are images of bytes. Whole numbers of another type are
            then read as such.
        seen: Types of corruption among the operations that augmented the training data.
        target: The column of a table that was learned.
    """

    normalize: Normalize | None = None
    shape: tuple[int, ...] | None = None
    frame: Frame | None = None
    tokenizer: Tokenizer | HuggingFaceTokenizer | None = None
    length: int = 128
    classes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    units: Normalize | None = None
    of_bytes: bool = False
    seen: tuple[str, ...] = ()
    target: str = ""

    @property
    def unit(self) -> float:
        """What a difference of 1 in the numbers that training saw is in their own."""
        return 1.0 if self.units is None else self.units.std[0]

    def reads_as_bytes(self, inputs: Tensor) -> bool:
        """Return whether inputs are images of bytes, whatever their type.

        Args:
            inputs: Any inputs.

        Returns:
            Whether they hold whole numbers and the training images were bytes.
        """
        return self.of_bytes and not inputs.is_floating_point()

    def tensors(self, raw: Inputs) -> Inputs:
        """Return raw numbers as a model sees them.

        Images are brought to the size and channels of the training images.

        Args:
            raw: Images ``(samples, channels, height, width)``, bytes or floats in
                ``[0, 1]``; vectors ``(samples, features)`` of any numbers; rows of a
                table in the units of its columns, as :meth:`in_units` has them; or a
                mapping of tensors, which stays as it is.

        Returns:
            The inputs.

        Raises:
            ValueError: If images have neither the right channels nor one or three, or
                hold whole numbers that are no bytes if those of the training do.
        """
        if isinstance(raw, Tensor) and self.reads_as_bytes(raw):
            raw = _as_bytes(raw)
        if isinstance(raw, Tensor) and self.shape is not None:
            rule = "be images (samples, channels, height, width)"
            require(raw.ndim == 4, "inputs", rule, tuple(raw.shape))
            whole = not (raw.is_floating_point() or are_images_of_bytes(raw))
            raw = images_in_form(raw.float() if whole else raw, self.shape)
        seen = prepared(raw, self.normalize)
        if self.columns and isinstance(seen, Tensor):
            return seen.float()  # as tables are, standardized before they are rounded
        return seen

    def in_units(self, seen: Tensor) -> Tensor:
        """Return rows of a table in the units of its columns, words as zeros and ones.

        Args:
            seen: What a model sees of them, ``(rows, features)``.

        Returns:
            Numbers of the same shape in float64, of which :meth:`tensors` makes what a
            model sees.

        Raises:
            ValueError: If the training data were no table.
        """
        self._check_columns()
        assert self.normalize is not None
        moments = self.normalize.mean, self.normalize.std
        mean, std = torch.tensor(moments, dtype=torch.float64).unbind()
        return seen.double().cpu() * std + mean

    def images(self, files: Sequence[Path]) -> ImageFiles:
        """Return image files as data in the form of the training images.

        Args:
            files: The files.

        Returns:
            A data set without labels (-1), in the order of the files, decoded batch by
            batch.

        Raises:
            ValueError: If the training data were no images, or files cannot be
                brought to their shape.
        """
        rule = "have learned from images to take image files"
        require(self.shape is not None, "ensemble", rule, "other inputs")
        assert self.shape is not None
        none = [NO_LABEL] * len(files)
        data = ImageFiles(files, none, frame=self.frame, classes=self.classes)
        return _files_in_form(data, self.shape, self.normalize).in_batches()

    def apply(
        self,
        source: Dataset[Any] | str | Path | DataFrame,
        *,
        targets: bool | None = None,
    ) -> Dataset[Any]:
        """Return new samples as the training data were read.

        Args:
            source: A data set, of which images in ``Arrays``, ``ImageFiles`` or a
                subset of either come in the form of the training images, arrays of a
                file that names no normalization with that of the training data, and
                some of the named classes by their numbers there; any other stays as it
                is. Or a place: of a table (or a ``pandas.DataFrame``) all rows, with
                their targets if the column that was learned is there; of arrays
                (``.npy``), images or a folder of images, samples without labels (-1).
            targets: Whether to read the targets of a table; True demands them.

        Returns:
            The samples, in their order.

        Raises:
            FileNotFoundError: If there is no such file or folder.
            ValueError: If it is a table that was standardized in another way, or holds
                samples of another kind than the training data.

        Example:
            >>> from tepui.data import Arrays
            >>> digits = Arrays(torch.ones(2, 3), torch.arange(2), None, ("3", "7"))
            >>> Preparation(classes=("1", "3", "7")).apply(digits).targets
            tensor([1, 2])
        """
        if isinstance(source, str | Path) or is_frame(source):
            return self._at(source, targets)
        scaled = self.normalize is not None and not self.columns
        if scaled and isinstance(source, ArrayFile) and source.normalize is None:
            source = Arrays(source.inputs, source.targets, self.normalize)
        source = relabel(source, self.classes)
        self.check_table(source)
        if self.shape is None:
            return source
        return in_form(source, self.shape, self.normalize)

    def _at(self, place: str | Path | DataFrame, targets: bool | None) -> Dataset[Any]:
        """Return the samples that lie in a place."""
        if self.columns or is_frame(place):
            self._check_columns()
            assert self.normalize is not None
            how = self.columns, self.normalize, self.units, targets
            return rows_as(read_frame(place), self.target, self.classes, *how)
        place = Path(place)
        if place.suffix == ".npy":
            return _unlabeled(self.tensors(rows_in(place)))
        return self.images(files_at(place))

    def check_table(self, dataset: Dataset[Any], argument: str = "dataset") -> None:
        """Check that a table's numbers mean what those of the training rows meant.

        Args:
            dataset: Any data set; those that are no :class:`~tepui.data.Table` pass.
            argument: What it is called in a message.

        Raises:
            ValueError: If it is a table that was standardized in another way.
        """
        if not isinstance(dataset, Table):
            return
        theirs = dataset.columns, dataset.scaling, dataset.units
        same = theirs == (self.columns, self.normalize, self.units)
        rule = "be standardized by the rows that the ensemble learned from "
        rule += "(Table.rows_of does)"
        require(same, argument, rule, "a table with other training rows")

    def texts(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> Inputs:
        """Return texts as numbers.

        Args:
            texts: Texts, or pairs of them.

        Returns:
            The tokenizer's tensors by name.

        Raises:
            ValueError: If the training data had no tokenizer.
        """
        rule = "have learned from texts (tepui.data.Texts) to take texts"
        require(self.tokenizer is not None, "ensemble", rule, "other inputs")
        assert self.tokenizer is not None
        return self.tokenizer.batch(texts, self.length)

    def table(self, rows: str | Path | DataFrame) -> Inputs:
        """Return the rows of a table as a model sees them.

        Args:
            rows: A file or frame with the columns of the training rows; others are
                ignored.

        Returns:
            The inputs, in the order of the rows.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the training data were no table, columns are missing, or
                cells cannot be read.
        """
        self._check_columns()
        read = self.apply(rows, targets=False)
        assert isinstance(read, Table)
        return read.inputs

    def _check_columns(self) -> None:
        rule = "have learned from a table (tepui.data.Table) to take a table"
        require(bool(self.columns), "ensemble", rule, "other inputs")

    def document(self) -> dict[str, Any]:
        """Return the preparation for JSON.

        Returns:
            What :meth:`of` reads.
        """
        words = None if self.tokenizer is None else self.tokenizer.document()
        document = asdict(replace(self, tokenizer=None)) | {"tokenizer": words}
        of_some = ("columns", "units", "seen", "target")
        return {k: v for k, v in document.items() if v or k not in of_some}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read what :meth:`document` returned.

        Args:
            document: The value, from a file.

        Returns:
            The preparation.

        Raises:
            ValueError: If a part breaks its rule.
        """
        makers: dict[str, Callable[..., Any]] = {
            "normalize": Normalize,
            "frame": Frame,
            "tokenizer": _tokenizer,
            "units": Normalize,
        }
        parts: dict[str, Any] = {name: _value(v) for name, v in document.items()}
        for name, make in makers.items():
            if parts.get(name) is not None:
                values = {k: _value(v) for k, v in parts[name].items()}
                parts[name] = make(**values)
        parts["columns"] = tuple(map(Column.of, parts.get("columns", ())))
        return cls(**parts)


def preparation_of(dataset: Dataset[Any]) -> Preparation | None:
    """Return what a data set does to its inputs; None if its own code does it.

    Example:
        >>> import torch
        >>> from tepui.data import Arrays
        >>> images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
        >>> preparation_of(Arrays(images, torch.tensor([0, 1]))).shape
        (1, 8, 8)
    """
    source = whole(dataset)
    data = source if isinstance(source, StoredData) else as_arrays(source)
    if data is None:
        return None
    tokenizer = getattr(source, "tokenizer", None)
    known = isinstance(tokenizer, Tokenizer | HuggingFaceTokenizer)
    return Preparation(
        normalize=source.scaling if isinstance(source, Table) else data.normalize,
        shape=image_shape(data),
        frame=source.frame if isinstance(source, ImageFiles) else None,
        tokenizer=tokenizer if known else None,
        length=int(getattr(source, "length", 128)),
        classes=class_names(source),
        columns=source.columns if isinstance(source, Table) else (),
        units=source.units if isinstance(source, Table) else None,
        of_bytes=_are_bytes(data),
        target=source.target if isinstance(source, Table) else "",
    )


def _unlabeled(inputs: Inputs) -> Arrays:
    """Return inputs of one tensor as samples without labels (-1)."""
    assert isinstance(inputs, Tensor), "arrays and tables are one tensor"
    return Arrays(inputs, torch.full((len(inputs),), NO_LABEL))


def _are_bytes(data: Arrays | StoredData) -> bool:
    if isinstance(data, ImageFiles):
        return True
    first = data.raw(torch.arange(1))
    return isinstance(first, Tensor) and are_images_of_bytes(first)


def _as_bytes(whole: Tensor) -> Tensor:
    """Return whole numbers as bytes; refuse those that are none."""
    if whole.dtype != torch.uint8 and have_values():
        numbers = whole.float()
        lowest, highest = numbers.min().item(), numbers.max().item()
        rule = "hold bytes, from 0 to 255, as the training images do"
        fits = lowest >= 0 and highest <= 255
        require(fits, "inputs", rule, f"numbers from {lowest:g} to {highest:g}")
    return whole.to(torch.uint8)


def _tokenizer(**values: Any) -> Tokenizer | HuggingFaceTokenizer:
    foreign = "hugging_face" in values
    return HuggingFaceTokenizer.of(values) if foreign else Tokenizer(**values)


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


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
    form = preparation_of(like)
    if form is None or form.shape is None:
        return dataset
    return in_form(dataset, form.shape, form.normalize)


def in_form(
    dataset: Dataset[Any], shape: tuple[int, ...], normalize: Normalize | None
) -> Dataset[Any]:
    """Return images of a shape and with a normalization; other data as they are."""
    if isinstance(dataset, Subset):
        parent = in_form(dataset.dataset, shape, normalize)
        return dataset if parent is dataset.dataset else Subset(parent, dataset.indices)
    if not isinstance(dataset, Arrays | ImageFiles):
        return dataset
    present = image_shape(dataset)
    same = present == shape and dataset.normalize == normalize
    if isinstance(dataset, ImageFiles):
        framed = same and dataset.frame is not None
        return dataset if framed else _files_in_form(dataset, shape, normalize)
    if same or present is None:
        return dataset
    assert isinstance(dataset.inputs, Tensor)
    images = images_in_form(dataset.inputs, shape)
    return Arrays(images, dataset.targets, normalize, dataset.classes)


def _files_in_form(
    files: ImageFiles, shape: tuple[int, ...], normalize: Normalize | None
) -> ImageFiles:
    channels, height, width = shape
    rule = "hold square images, gray or in color, to give files their form"
    require(channels in (1, 3) and height == width, "like", rule, shape)
    frame = replace(files.frame or Frame(width), size=width)
    form: dict[str, Any] = {"gray": channels == 1, "normalize": normalize}
    named = files.files, files.targets
    return ImageFiles(*named, frame=frame, classes=files.classes, **form)


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
    return _as_type(gray(images.float()), images.dtype)


def _as_type(images: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.uint8:
        images = images.round().clamp(0, 255)
    return images.to(dtype)
