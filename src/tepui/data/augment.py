"""Random augmentation of whole batches, as a function of uniform numbers.

An augmentation draws nothing itself: it maps inputs and uniform numbers to inputs. The
caller owns the generator, so a batch is the same on every device and after every
resume. No step loops over samples or waits for the device.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.core.types import check_fields
from tepui.data.arrays import Inputs
from tepui.data.image_operations import check_bytes
from tepui.data.preparation import Preparation, preparation_of

Kind = Literal["images", "rows", "texts"]
PROBABILITY = {"probability": (0.0, 1.0)}


class Augmentation(ABC):
    """Maps inputs and uniform numbers to inputs of the same kind.

    Attributes:
        of: Which inputs it augments: ``"images"``, ``"rows"`` or ``"texts"``; None if
            it looks itself.
        bounds: Smallest and largest values of fields of a dataclass.
    """

    of: ClassVar[Kind | None] = "images"
    bounds: ClassVar[Mapping[str, tuple[float, float]]] = {}

    def __post_init__(self) -> None:
        check_fields(self)
        for name, (low, high) in self.bounds.items():
            value = getattr(self, name)
            require(low <= value <= high, name, f"lie in [{low}, {high}]", value)

    @property
    @abstractmethod
    def draws(self) -> int:
        """How many uniform numbers a sample needs."""

    @property
    def corruptions(self) -> frozenset[str]:
        """Types of corruption that are among its operations; none by default."""
        return frozenset()

    @abstractmethod
    def __call__(self, inputs: Any, uniform: Tensor) -> Any:
        """Return augmented inputs.

        Args:
            inputs: Images ``(samples, channels, height, width)``, bytes or floats; rows
                ``(samples, features)``; or tokens of texts, by name.
            uniform: Numbers in ``[0, 1)`` of shape ``(samples, draws)``.

        Returns:
            Inputs of the same kind.
        """

    def knowing(self, preparation: Preparation | None) -> "Augmentation":
        """Return the same augmentation for data that were prepared in a known way.

        Args:
            preparation: What was done to the training data; None if it is not known.

        Returns:
            This augmentation, unless it depends on the data.
        """
        return self


class ByteAugmentation(Augmentation):
    """Maps bytes to bytes; floats in ``[0, 1]`` are rounded to bytes and back."""

    @final
    def __call__(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return augmented images."""
        check_batch(images, uniform, self.draws)
        if not images.is_floating_point():
            return self.changed(check_bytes(images), uniform)
        if images.device.type == "cpu":  # another device would be waited for
            check_levels(images)
        levels = (images.float() * 255).round().clamp(0, 255).to(torch.uint8)
        changed = self.changed(check_bytes(levels), uniform)
        return (changed.float() / 255).to(images.dtype)

    @abstractmethod
    def changed(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return augmented bytes.

        Args:
            images: Bytes of shape ``(samples, channels, height, width)``, of one or
                three channels.
            uniform: Numbers in ``[0, 1)`` of shape ``(samples, draws)``.

        Returns:
            Bytes of the same shape.
        """


@final
@dataclass(frozen=True)
class RandomCrop(Augmentation):
    """Pad every side, then cut out a window of the original size.

    Attributes:
        padding: Pixels added to each side.
        fill: Value of the added pixels, from 0 to 1 even for bytes.

    Example:
        >>> image = torch.arange(4.0).view(1, 1, 2, 2) / 4
        >>> RandomCrop(padding=1)(image, torch.tensor([[0.0, 0.5]]))
        tensor([[[[0.0000, 0.0000],
                  [0.0000, 0.2500]]]])
    """

    draws: ClassVar[int] = 2
    bounds: ClassVar = {"padding": (1, math.inf), "fill": (0, 1)}
    padding: int = 4
    fill: float = 0.0

    def __call__(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return windows whose top and left follow from the two uniform numbers."""
        check_batch(images, uniform, self.draws)
        fill = round(self.fill * 255) if images.dtype == torch.uint8 else self.fill
        padded = F.pad(images, (self.padding,) * 4, value=fill)
        windows = padded.unfold(2, images.shape[2], 1).unfold(3, images.shape[3], 1)
        top, left = choice(uniform, 2 * self.padding + 1).unbind(1)
        return windows[torch.arange(len(images), device=images.device), :, top, left]


@final
@dataclass(frozen=True)
class HorizontalFlip(Augmentation):
    """Mirror left and right with a probability.

    Attributes:
        probability: Chance that a sample is mirrored.

    Example:
        >>> image = torch.tensor([[[[1.0, 2.0]]]])
        >>> HorizontalFlip()(image, torch.tensor([[0.3]]))
        tensor([[[[2., 1.]]]])
    """

    draws: ClassVar[int] = 1
    bounds: ClassVar = PROBABILITY
    probability: float = 0.5

    def __call__(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return samples mirrored where the uniform number is below probability."""
        check_batch(images, uniform, self.draws)
        mirrored = (uniform < self.probability)[:, :, None, None]
        return torch.where(mirrored, images.flip(-1), images)


@final
@dataclass(frozen=True)
class RandomResizedCrop(Augmentation):
    """Cut out a window of random area and shape and resize it bilinearly.

    The window's share of the area is drawn uniformly from ``scale``, the logarithm of
    its aspect ratio uniformly between the logarithms of ``ratio``, and its position
    uniformly. A window that does not fit is cut down to the image, where torchvision
    would draw up to nine times more; and shrinking does not smooth first.

    Attributes:
        size: Side of the result in pixels; None keeps height and width.
        scale: Smallest and largest share of the area.
        ratio: Smallest and largest width over height.

    Example:
        >>> images = torch.zeros(5, 3, 64, 64)
        >>> RandomResizedCrop(size=32)(images, torch.rand(5, 4)).shape
        torch.Size([5, 3, 32, 32])
    """

    draws: ClassVar[int] = 4
    size: int | None = None
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.size is None or self.size > 0, "size", "be positive", self.size)
        _check_window(self.scale, self.ratio)

    def __call__(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return resized windows; the four numbers set area, shape, top and left."""
        check_batch(images, uniform, self.draws)
        height, width = images.shape[2:]
        rows, columns = _window(height, width, self.scale, self.ratio, uniform)
        y = _centers(*rows, self.size or height)
        x = _centers(*columns, self.size or width)
        return _sample(images, y, x)


@final
@dataclass(frozen=True)
class RandomErasing(Augmentation):
    """Fill a window of random area, shape and position with a probability.

    A window that does not fit is cut down to the image, where torchvision would draw up
    to nine times more.

    Attributes:
        probability: Chance that a sample loses a window.
        scale: Smallest and largest share of the area.
        ratio: Smallest and largest width over height.
        fill: Value of the filled pixels, from 0 to 1 even for bytes.

    Example:
        >>> erasing = RandomErasing(probability=1.0, scale=(0.25, 0.25), ratio=(1, 1))
        >>> erasing(torch.ones(1, 1, 2, 2), torch.tensor([[0.0, 0.0, 0.0, 0.9, 0.0]]))
        tensor([[[[1., 1.],
                  [0., 1.]]]])

    References:
        Zhong et al., Random Erasing Data Augmentation, AAAI 2020.
    """

    draws: ClassVar[int] = 5
    bounds: ClassVar = {**PROBABILITY, "fill": (0, 1)}
    probability: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    fill: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_window(self.scale, self.ratio)

    def __call__(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return images less a window; numbers set chance, area, shape, top, left."""
        check_batch(images, uniform, self.draws)
        height, width = images.shape[2:]
        sides = _window(height, width, self.scale, self.ratio, uniform[:, 1:])
        rows, columns = (
            within(*side, size)
            for side, size in zip(sides, (height, width), strict=True)
        )
        erased = rows[:, None, :, None] & columns[:, None, None, :]
        erased &= (uniform[:, 0] < self.probability)[:, None, None, None]
        fill = round(self.fill * 255) if images.dtype == torch.uint8 else self.fill
        return images.masked_fill(erased, fill)


def augment(
    inputs: Inputs, augmentations: Sequence[Augmentation], uniform: Tensor
) -> Inputs:
    """Apply augmentations in order, each with its own columns of ``uniform``.

    Example:
        >>> steps = [RandomCrop(padding=4), HorizontalFlip()]
        >>> images = torch.zeros(5, 3, 32, 32, dtype=torch.uint8)
        >>> augment(images, steps, torch.rand(5, 3)).dtype
        torch.uint8
    """
    if not augmentations:
        return inputs
    check_kind(inputs, augmentations)
    draws = [augmentation.draws for augmentation in augmentations]
    check_draws(inputs, uniform, sum(draws))
    for step, columns in zip(augmentations, uniform.split(draws, dim=1), strict=True):
        inputs = step(inputs, columns)
    return inputs


def knowing(
    augmentations: Sequence[Augmentation], dataset: Dataset[Any]
) -> tuple[Augmentation, ...]:
    """Return augmentations that know how a data set was prepared."""
    preparation = preparation_of(dataset) if augmentations else None
    return tuple(step.knowing(preparation) for step in augmentations)


def check_kind(inputs: Inputs, augmentations: Sequence[Augmentation]) -> None:
    """Refuse augmentations of other inputs than these.

    Example:
        >>> check_kind(torch.zeros(2, 5), [HorizontalFlip()])
        Traceback (most recent call last):
        ValueError: augment must be for rows, as the inputs are, got 'HorizontalFlip \
for images'
    """
    kind: Kind | None
    if isinstance(inputs, Tensor):
        kinds: dict[int, Kind] = {2: "rows", 4: "images"}
        kind, other = kinds.get(inputs.ndim), f"inputs of shape {tuple(inputs.shape)}"
    else:
        kind = "texts" if "input_ids" in inputs else None
        other = "dict inputs without input_ids"
    wrong = [
        f"{type(s).__name__} for {s.of}"
        for s in augmentations
        if s.of not in (kind, None)
    ]
    rule = f"be for {kind}, as the inputs are" if kind else f"be empty for {other}"
    require(not wrong, "augment", rule, ", ".join(wrong))


def check_batch(images: Tensor, uniform: Tensor, draws: int) -> None:
    """Refuse images without four axes, and uniform numbers of another shape."""
    rule = "have shape (samples, channels, height, width)"
    require(images.ndim == 4, "images", rule, tuple(images.shape))
    check_draws(images, uniform, draws)


def check_draws(inputs: Inputs, uniform: Tensor, draws: int) -> None:
    """Refuse uniform numbers that are not ``draws`` for each sample."""
    one = inputs if isinstance(inputs, Tensor) else next(iter(inputs.values()))
    expected = (len(one), draws)
    rule = f"have shape {expected}, one column per draw"
    require(uniform.shape == expected, "uniform", rule, tuple(uniform.shape))


def check_levels(images: Tensor) -> None:
    """Refuse floats outside ``[0, 1]``, which have no bytes."""
    if images.is_floating_point():
        low, high = (bound.item() for bound in images.aminmax())
        rule = "lie in [0, 1] to be rounded to bytes (augment before standardizing)"
        require(low >= 0 and high <= 1, "images", rule, f"{low:.3g} to {high:.3g}")


def choice(uniform: Tensor, count: Tensor | int) -> Tensor:
    """Map numbers in ``[0, 1)`` to whole numbers from 0 to ``count - 1``."""
    return (uniform * count).long()


def between(low: float, high: float, uniform: Tensor) -> Tensor:
    """Map numbers in ``[0, 1)`` to numbers from ``low`` to ``high``."""
    return low + (high - low) * uniform


def _check_window(scale: tuple[float, float], ratio: tuple[float, float]) -> None:
    low, high = scale
    require(0 < low <= high <= 1, "scale", "be increasing within (0, 1]", scale)
    low, high = ratio
    require(0 < low <= high, "ratio", "be positive and increasing", ratio)


def _window(
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    uniform: Tensor,
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return (top, length) and (left, length) in whole pixels."""
    area = height * width * between(*scale, uniform[:, 0])
    low, high = ratio
    shape = between(math.log(low), math.log(high), uniform[:, 1]).exp()
    tall = (area / shape).sqrt().round().clamp(1, height)
    wide = (area * shape).sqrt().round().clamp(1, width)
    top = choice(uniform[:, 2], height - tall + 1)
    return (top, tall), (choice(uniform[:, 3], width - wide + 1), wide)


def within(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Return which of ``size`` pixels each window covers."""
    place = torch.arange(size, device=start.device)
    start, length = start[:, None], length[:, None]
    return (place >= start) & (place < start + length)


def _centers(start: Tensor, length: Tensor, size: int) -> Tensor:
    """Return where ``size`` even steps through a window fall, inside the window."""
    start, length = start[:, None], length[:, None]
    step = torch.arange(size, dtype=length.dtype, device=length.device) + 0.5
    return start + (step * length / size - 0.5).clamp(min=0).minimum(length - 1)


def _sample(images: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Read images bilinearly at pixel rows ``y`` and columns ``x`` of each sample."""
    pixels = images.to(torch.promote_types(images.dtype, torch.float32))
    y = (2 * y + 1) / images.shape[2] - 1
    x = (2 * x + 1) / images.shape[3] - 1
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), dim=-1)
    read = F.grid_sample(pixels, grid.to(pixels), "bilinear", "border", False)
    return (read.round() if images.dtype == torch.uint8 else read).to(images.dtype)


Steps = tuple[Augmentation, ...]


@final
@dataclass(frozen=True, init=False)
class PerMember:
    """One policy of augmentation for each member.

    Attributes:
        policies: The augmentations of each member, in order.

    Example:
        >>> from tepui.data import HorizontalFlip, Mixup, RandomCrop
        >>> augment = PerMember(RandomCrop(), [HorizontalFlip(), Mixup(0.4)], [])
        >>> len(augment.policies)
        3
    """

    policies: tuple[Steps, ...]

    def __init__(self, *policies: Augmentation | Sequence[Augmentation]) -> None:
        given = tuple(
            (policy,) if isinstance(policy, Augmentation) else tuple(policy)
            for policy in policies
        )
        steps = [step for policy in given for step in policy]
        rule = "be an augmentation, or several in order"
        for step in steps:
            require(isinstance(step, Augmentation), "a policy", rule, step)
        object.__setattr__(self, "policies", given)

    def of(self, member: int, members: int) -> Steps:
        """Return the augmentations of one of so many members."""
        rule = f"have one policy per member ({members})"
        require(len(self.policies) == members, "augment", rule, len(self.policies))
        return self.policies[member]


def policy_of(augment: Iterable[Any] | PerMember) -> Any:
    """Return augmentations in order; lists of them are policies of the members.

    Example:
        >>> from tepui.data import HorizontalFlip, RandomCrop
        >>> policy_of([RandomCrop(), HorizontalFlip()])
        (RandomCrop(padding=4, fill=0.0), HorizontalFlip(probability=0.5))
        >>> policy_of([[RandomCrop()], []]) == PerMember(RandomCrop(), [])
        True
    """
    given = (augment,) if isinstance(augment, PerMember) else tuple(augment)
    if len(given) == 1 and isinstance(given[0], PerMember):
        return given[0]
    if any(isinstance(item, list | tuple) for item in given):
        return PerMember(*given)
    return given
