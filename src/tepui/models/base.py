"""What tepui's own models share: features, a linear classifier, and a configuration.

Nothing in the library asks for this class: any ``nn.Module`` can be a member. It lets a
saved ensemble rebuild its members, and gives methods that train only the last layer a
place to cut.
"""

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor, nn

from tepui.checks import require


class Model(nn.Module, ABC):
    """A classifier that is linear in its features.

    Attributes:
        classifier: The last layer.
        config: Arguments from which the constructor builds the same model; each can
            be written as JSON.
    """

    classifier: nn.Linear
    config: dict[str, Any]

    @abstractmethod
    def features(self, x: Tensor) -> Tensor:
        """Return features of shape ``(samples, width)``.

        Args:
            x: A batch of inputs.

        Returns:
            What the classifier sees.
        """

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of shape ``(samples, classes)``; no model overrides this.

        Args:
            x: A batch of inputs.

        Returns:
            The classifier applied to the features.
        """
        logits: Tensor = self.classifier(self.features(x))
        return logits


def positive(**sizes: int) -> None:
    """Check the sizes a constructor was given.

    Args:
        sizes: Arguments by name.

    Raises:
        ValueError: If one is not positive.

    Example:
        >>> positive(width=0)
        Traceback (most recent call last):
        ValueError: width must be positive, got 0
    """
    for name, size in sizes.items():
        require(size > 0, name, "be positive", size)
