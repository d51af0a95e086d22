"""tepui's streaming metrics as metrics of torchmetrics.

For training loops that expect them: states are moved, reset and summed or gathered over
processes by torchmetrics. Needs torchmetrics, which tepui does not install.
"""

from typing import Any

import torch
from torch import Tensor

from tepui.metrics.ood import ScoresStreaming
from tepui.metrics.streaming import LogitsStreaming

try:
    from torchmetrics import Metric
except ImportError as error:
    raise ImportError(
        "no torchmetrics; get it with: pip install torchmetrics"
    ) from error

__all__ = ["TorchMetric"]


class TorchMetric(Metric):
    """A streaming metric of tepui as one of torchmetrics.

    Args:
        stream: The metric.
        options: Passed on to torchmetrics.

    Example:
        >>> from tepui.metrics import Accuracy
        >>> metric = TorchMetric(Accuracy())
        >>> metric.update(torch.tensor([[[2.0, 0.0]]]), torch.tensor([0]))
        >>> metric.compute()
        tensor(1.)
    """

    is_differentiable = False
    full_state_update = False

    def __init__(
        self, stream: LogitsStreaming[Any] | ScoresStreaming, **options: Any
    ) -> None:
        super().__init__(**options)
        self.stream = stream
        self._names = [f"state_{index}" for index in range(stream.num_states)]
        for name in self._names:
            if stream.joined:
                self.add_state(name, [], dist_reduce_fx="cat")
            else:
                self.add_state(name, torch.tensor(0), dist_reduce_fx="sum")

    def update(self, *data: Any) -> None:
        """Take in some samples, as the streaming metric does."""
        self.stream.update(*data)
        states = self.stream.state()
        self.stream._states = []
        for name, new in zip(self._names, states, strict=True):
            if self.stream.joined:
                getattr(self, name).append(new)
            else:
                setattr(self, name, getattr(self, name) + new)

    def compute(self) -> Any:
        """Return the metric of all samples seen since the last reset."""
        kept = [getattr(self, name) for name in self._names]
        if self.update_count:
            # Gathered over processes, joined states are tensors already.
            whole = (x if isinstance(x, Tensor) else torch.cat(x) for x in kept)
            self.stream._states = [tuple(whole)]
        try:
            return self.stream.compute()
        finally:
            self.stream._states = []
