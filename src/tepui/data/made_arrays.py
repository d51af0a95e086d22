"""Arrays that know how their inputs were made of words or columns."""

import copy
from typing import Self

from torch import Tensor

from tepui.data.arrays import Arrays, Inputs


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
