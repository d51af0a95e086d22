"""A data set held in tensors, the form that trains fastest."""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import different_names, have_values, not_among, require
from tepui.core.types import check_types

Inputs = Tensor | Mapping[str, Tensor]


def map_inputs(function: Callable[[Tensor], Tensor], inputs: Inputs) -> Inputs:
    """Apply a function to a tensor, or to every tensor of a mapping."""
    if isinstance(inputs, Tensor):
        return function(inputs)
    return {name: function(tensor) for name, tensor in inputs.items()}


def to_tensor(argument: str, values: object) -> Tensor:
    """Return numbers as a tensor; a tensor is returned as it is.

    Example:
        >>> to_tensor("targets", [0, 2]), to_tensor("inputs", np.zeros(1)).dtype
        (tensor([0, 2]), torch.float32)
        >>> to_tensor("inputs", np.array(["a"]))
        Traceback (most recent call last):
        ValueError: inputs must hold numbers in a tensor, an array or a list, got <U1
    """
    if isinstance(values, Tensor):
        return values
    rule = "hold numbers in a tensor, an array or a list"
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{argument} must {rule} ({error})") from error
    if array.dtype.kind not in "uifb":
        raise ValueError(f"{argument} must {rule}, got {array.dtype.str}")
    tensor = torch.tensor(array.astype(array.dtype.newbyteorder("="), copy=False))
    return tensor.to(torch.get_default_dtype()) if array.dtype.kind == "f" else tensor


def class_numbers(
    targets: object, classes: tuple[str, ...]
) -> tuple[Tensor, tuple[str, ...]]:
    """Return targets as a tensor, words as numbers of their classes, and the classes.

    Example:
        >>> class_numbers(["dog", "cat", "dog"], ())
        (tensor([1, 0, 1]), ('cat', 'dog'))
        >>> class_numbers(["dog"], ("bird", "dog"))
        (tensor([1]), ('bird', 'dog'))
    """
    words = targets
    if hasattr(targets, "__array__") and not isinstance(targets, Tensor):
        array = np.asarray(targets)
        words = array.tolist() if array.dtype.kind in "UO" else array
    if not isinstance(words, list | tuple) or {*map(type, words)} != {str}:
        return to_tensor("targets", words), classes
    names = classes or tuple(sorted({*words}))
    numbers = {name: number for number, name in enumerate(names)}
    if unknown := sorted({*words} - {*names}):
        raise ValueError(not_among("targets", unknown, names))
    return torch.tensor([numbers[word] for word in words]), names


class Division(NamedTuple):
    """How the batch that carries it is divided into two kinds of samples.

    The samples of the first kind are the first rows of the batch, which only those who
    divide a batch and :meth:`Batch.parts` need to know.

    Attributes:
        rows: How many of the batch's samples are of the first kind.
        share: Share of the whole training data that is of the first kind, which may
            differ a little from that in a batch.
    """

    rows: int
    share: float


class Partners(NamedTuple):
    """The other sample that was mixed into each sample of a batch.

    Attributes:
        targets: Its target.
        index: Its position in its data set.
        share: How much is left of the sample itself, from 0 to 1.
    """

    targets: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index
    share: Tensor


class Batch(NamedTuple):
    """What a training step sees.

    Attributes:
        inputs: A tensor, or a mapping of tensors for dict inputs.
        targets: One target per sample.
        index: Position of each sample in its data set.
        division: How these rows are divided, if they are.
        partners: What was mixed into the samples, if anything: the loss of a sample is
            ``share`` of its own and the rest of its partner's target.
        views: Further augmented inputs of the same samples, with which outputs are to
            be consistent, if the loss asks for that.
    """

    inputs: Inputs
    targets: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index
    division: Division | None = None
    partners: Partners | None = None
    views: tuple[Tensor, ...] = ()

    def mapped(self, function: Callable[[Tensor], Tensor]) -> "Batch":
        """Apply a function to every tensor.

        Args:
            function: What to apply.

        Returns:
            A batch of what it returned, divided as this one.
        """
        partners = self.partners
        return Batch(
            map_inputs(function, self.inputs),
            function(self.targets),
            function(self.index),
            self.division,
            None if partners is None else Partners(*map(function, partners)),
            tuple(map(function, self.views)),
        )

    def take(self, rows: slice | Tensor) -> "Batch":
        """Return some of the samples, undivided.

        Args:
            rows: Which rows of the batch.

        Returns:
            A batch of these samples, without a division.
        """
        return self.mapped(lambda tensor: tensor[rows])._replace(division=None)

    def parts(self) -> tuple["Batch", "Batch"]:
        """Return the samples of the first kind and those of the second.

        Returns:
            Two batches.

        Raises:
            ValueError: If the batch is not divided.

        Example:
            >>> numbers = torch.arange(3)
            >>> batch = Batch(numbers, numbers, numbers, Division(rows=1, share=0.25))
            >>> first, second = batch.parts()
            >>> first.index, second.index
            (tensor([0]), tensor([1, 2]))
        """
        if self.division is None:
            raise ValueError("division must be given to divide a batch, got None")
        rows = self.division.rows
        return self.take(slice(rows)), self.take(slice(rows, None))


@dataclass(frozen=True)
class Normalize:
    """Scale images to ``[0, 1]`` if they are bytes, then ``(x - mean) / std``.

    Vectors have a mean and a standard deviation for every feature. Whole numbers become
    floats first, and float16 and bfloat16 become float32.

    Attributes:
        mean: One mean per channel, or per feature.
        std: One standard deviation per channel, or per feature.

    Example:
        >>> Normalize.of(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
        Normalize(mean=(2.0, 5.0), std=(1.0, 1.0))
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        rule = f"have one entry per mean ({len(self.mean)})"
        require(len(self.mean) == len(self.std) > 0, "std", rule, self.std)
        require(min(self.std) > 0, "std", "be positive", self.std)

    @classmethod
    def of(cls, inputs: Tensor) -> Self:
        """Return what gives each channel or feature mean 0 and standard deviation 1.

        Args:
            inputs: Images or vectors, as :meth:`__call__` takes them. What does not
                vary is divided by 1.

        Returns:
            The normalization of these samples.
        """
        values = _floats(inputs).double().transpose(0, 1).flatten(1)
        std = values.std(1, unbiased=False)
        std = std.where(std > 0, 1.0)
        return cls(tuple(values.mean(1).tolist()), tuple(std.tolist()))

    def __call__(self, images: Tensor) -> Tensor:
        """Return normalized images or vectors.

        Args:
            images: Bytes or floats of shape ``(samples, channels, height, width)``, or
                vectors ``(samples, features)`` of any numbers.

        Returns:
            Floats of the same shape.

        Raises:
            ValueError: If images are whole numbers but not bytes.
        """
        images = _floats(images)
        axes = max(0, images.ndim - 2)
        # What is traced into a graph has no values, and must not be kept.
        along = _channels if have_values() else _channels.__wrapped__
        mean = along(self.mean, axes, images.dtype, images.device)
        std = along(self.std, axes, images.dtype, images.device)
        return (images - mean) / std


@functools.lru_cache(maxsize=32)
def _channels(
    values: tuple[float, ...], axes: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return one value per channel, cached because copying to a GPU blocks."""
    return torch.tensor(values, dtype=dtype, device=device).reshape(-1, *[1] * axes)


def are_images_of_bytes(inputs: Tensor) -> bool:
    """Return whether inputs are images that still have to be scaled to ``[0, 1]``.

    Bytes with three axes are gray images without an axis for the channel; those with
    fewer are numbers like all others.
    """
    return inputs.dtype == torch.uint8 and inputs.ndim > 2


def scaled(inputs: Tensor) -> Tensor:
    """Map images of bytes to ``[0, 1]`` in float32; leave all others as they are."""
    return inputs.float().div_(255) if are_images_of_bytes(inputs) else inputs


def _floats(inputs: Tensor) -> Tensor:
    """Return numbers in float32 or float64, images on the scale from 0 to 1."""
    numbers = scaled(inputs)
    if numbers.dtype in (torch.float32, torch.float64):
        return numbers
    known = numbers.is_floating_point() or numbers.ndim <= 2
    require(known, "images", "be bytes (uint8) or floats", numbers.dtype)
    return numbers.float()


def prepared(inputs: Inputs, normalize: Normalize | None) -> Inputs:
    """Return images as normalized floats; dict inputs as they are."""
    if not isinstance(inputs, Tensor):
        return inputs
    return normalize(inputs) if normalize else scaled(inputs)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """Return the shape of one sample."""
    return tuple(tensor.shape[1:])


@dataclass(frozen=True, eq=False)
class Arrays(Dataset[tuple[Inputs, Tensor]]):
    """A map-style data set of ``(x, y)`` held in tensors.

    Arrays of numpy and lists of numbers become tensors, floats as torch has them by
    default. Targets in words become numbers of ``classes``, by default of the words in
    alphabetical order.

    Attributes:
        inputs: Samples along the first axis: a tensor or a mapping of tensors. Images
            are ``(samples, channels, height, width)``, bytes or floats in ``[0, 1]``;
            vectors ``(samples, features)`` may hold numbers of any type. Whole numbers
            become floats unless the model has embeddings; a mapping keeps them.
        targets: One target per sample.
        normalize: Applied to batches of images or vectors; None scales images of bytes
            to ``[0, 1]`` and leaves other inputs alone.
        classes: Names of the classes, where they have names.
    """

    inputs: Inputs
    targets: Tensor
    normalize: Normalize | None = None
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        given = self.inputs
        targets, classes = class_numbers(self.targets, self.classes)
        inputs: Inputs
        if isinstance(given, Mapping):
            inputs = {n: to_tensor(f"inputs[{n!r}]", part) for n, part in given.items()}
            require(len(inputs) > 0, "inputs", "name at least one tensor", dict(given))
            named = {f"inputs[{n!r}]": tensor for n, tensor in inputs.items()}
        else:
            inputs = to_tensor("inputs", given)
            named = {"inputs": inputs}
        for name, tensor in {"targets": targets, **named}.items():
            require(tensor.ndim > 0, name, "have samples along its first axis", tensor)
            rule = f"have as many samples as targets ({len(targets)})"
            require(len(tensor) == len(targets), name, rule, len(tensor))
        require(len(targets) > 0, "dataset", "hold at least one sample", 0)
        check_types(type(self), {"normalize": self.normalize, "classes": self.classes})
        different_names("classes", self.classes)
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "targets", targets)

    def __repr__(self) -> str:
        """Return what is held, in a line.

        Example:
            >>> Arrays(torch.zeros(5, 3), [0, 1, 0, 1, 0], classes=("cat", "dog"))
            Arrays(5 samples, inputs (3,), 2 classes)
            >>> Arrays({"words": torch.zeros(5, 9)}, torch.zeros(5))
            Arrays(5 samples, inputs words (9,), targets float32 ())
        """
        if isinstance(self.inputs, Tensor):
            held = str(_shape(self.inputs))
        else:
            held = ", ".join(f"{n} {_shape(part)}" for n, part in self.inputs.items())
        kind = str(self.targets.dtype).removeprefix("torch.")
        answers = f"targets {kind} {_shape(self.targets)}"
        if self.classes:
            answers = f"{len(self.classes)} classes"
        name = type(self).__name__
        return f"{name}({len(self)} samples, inputs {held}, {answers})"

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Inputs, Tensor]:
        inputs = self.prepare(self.raw(torch.tensor([index], device=self.device)))
        return map_inputs(lambda tensor: tensor[0], inputs), self.targets[index]

    @property
    def device(self) -> torch.device:
        """The device that holds the data."""
        return self.targets.device

    def raw(self, index: Tensor) -> Inputs:
        """Return stored inputs, neither augmented nor normalized.

        Args:
            index: Positions of the samples.

        Returns:
            Their inputs as they are stored.
        """
        return map_inputs(lambda tensor: tensor[index], self.inputs)

    def prepare(self, inputs: Inputs) -> Inputs:
        """Return stored inputs as a model sees them.

        Args:
            inputs: What :meth:`raw` returned, augmented or not.

        Returns:
            Images as normalized floats; dict inputs as they are.
        """
        return prepared(inputs, self.normalize)

    def like(self, inputs: Inputs, targets: Tensor) -> "Arrays":
        """Return other samples with the same normalization and classes.

        Args:
            inputs: Their inputs.
            targets: Their targets.

        Returns:
            A new data set.
        """
        return Arrays(inputs, targets, self.normalize, self.classes)

    def subset(self, index: Tensor | Sequence[int]) -> "Arrays":
        """Return some of the samples.

        Args:
            index: Their positions.

        Returns:
            A new data set, in the order of ``index``.
        """
        rows = torch.as_tensor(index, device=self.device)
        return self.like(self.raw(rows), self.targets[rows])

    def to(self, device: str | torch.device) -> "Arrays":
        """Return the data set on another device.

        Args:
            device: Where its tensors shall be.

        Returns:
            A new data set.
        """
        inputs = map_inputs(lambda tensor: tensor.to(device), self.inputs)
        return self.like(inputs, self.targets.to(device))


class MadeArrays(Arrays):
    """Arrays with a tokenizer or columns, which their parts have too.

    An ensemble that learns from a part remembers them like one that learns from all.
    """

    def like(self, inputs: Inputs, targets: Tensor) -> Self:
        """Return other samples that were made in the same way.

        Args:
            inputs: Their inputs.
            targets: Their targets.

        Returns:
            A new data set of the same class.
        """
        part = copy.copy(self)
        object.__setattr__(part, "inputs", inputs)
        object.__setattr__(part, "targets", targets)
        part.__post_init__()
        return part
