"""What a task calls its classes, and what they count."""

from collections.abc import Container
from typing import NamedTuple


class Nouns(NamedTuple):
    """What scores per class are of, in words."""

    one: str
    several: str
    samples: str
    mean: str  # of their recalls

    def counted(self, count: int) -> str:
        """Return what so many samples are called.

        Example:
            >>> nouns_of("multi_label", ()).counted(1)
            'sample'
        """
        return self.samples.removesuffix("s") if count == 1 else self.samples


def nouns_of(task: str, scores: Container[str]) -> Nouns:
    """Return what a task calls classes and samples; pixels are known by their scores.

    Example:
        >>> nouns_of("classification", {"accuracy", "mean_iou"})[:3]
        ('class', 'classes', 'pixels')
    """
    if task == "multi_label":
        return Nouns("label", "labels", "samples", "mean recall")
    samples = "pixels" if "mean_iou" in scores else "samples"
    return Nouns("class", "classes", samples, "balanced accuracy")
