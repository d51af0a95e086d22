"""What an evaluation takes in memory, reckoned before anything is computed.

The reckoning follows the code: a batch of inputs and those that are read ahead, what
the forward pass of one member holds, the batch's logits twice while members are stacked
and those of the batch before, and what metrics derive from a run of samples. None of
these grows with the number of samples; scores that are ranked do, a few numbers each.
"""

from typing import NamedTuple, get_args

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.data.loading import AHEAD
from tepui.metrics import Score
from tepui.metrics.chunks import LOGITS_AT_ONCE

_FLOAT = 4
_INDEX = 8
# Tensors of the size of a run that are alive at once in the metrics: logits,
# log-probabilities, probabilities, and the largest expressions of two of them.
_OF_A_RUN = 8


class MemoryPrice(NamedTuple):
    """Bytes at the peak.

    Attributes:
        device: Where members compute.
        host: Beside it. On a CPU both parts are in the same memory, which holds their
            sum.
    """

    device: int
    host: int


def evaluation_memory(
    *,
    members: int,
    samples: int,
    classes: int,
    batch_size: int = 1024,
    sample_bytes: int = 0,
    weight_bytes: int = 0,
    activation_bytes: int = 0,
    ood_samples: int = 0,
    own_metrics: bool = False,
) -> MemoryPrice:
    """Return what evaluating an ensemble takes at the peak.

    Storing the logits takes no memory, since they are written as they come; data that
    are held in tensors come on top.

    Args:
        members: How many members there are.
        samples: Samples of the largest data set.
        classes: Between how many classes members choose.
        batch_size: Samples that go through a member at once.
        sample_bytes: What the inputs of a sample take, as a model sees them.
        weight_bytes: What the weights of all members take together.
        activation_bytes: What the forward pass of one member holds of a sample.
        ood_samples: Samples of all unfamiliar sets together.
        own_metrics: Whether there are custom metrics, which need all logits at once.

    Returns:
        Bytes on the device and on the host.

    Raises:
        ValueError: If a size is negative, or there are no members, classes or samples
            in a batch.

    Example:
        >>> price = evaluation_memory(members=50, samples=750_000, classes=1000)
        >>> price.device < 2**30  # all logits would take 150 GB
        True
    """
    check_types(evaluation_memory, locals())
    sizes = locals()
    for name in ("members", "classes", "batch_size"):
        require(sizes[name] > 0, name, "be positive", sizes[name])
    for name, size in sizes.items():
        require(size >= 0, name, "not be negative", size)
    batch = min(batch_size, max(samples, ood_samples, 1))
    of_sample = members * classes * _FLOAT
    run = min(max(LOGITS_AT_ONCE * _FLOAT, of_sample), max(samples, 1) * of_sample)
    # A batch is on its way while another is used.
    inputs = 2 * batch * sample_bytes
    ranked = len(get_args(Score)) * _FLOAT * (samples + ood_samples)
    device = (
        weight_bytes
        + inputs
        + batch * activation_bytes
        + 3 * batch * of_sample
        + _OF_A_RUN * run
        + 2 * ranked  # in runs, and joined
        + (2 * samples * of_sample if own_metrics else 0)
    )
    # Batches read ahead, one of them pinned too; and the targets.
    host = (AHEAD + 2) * batch * sample_bytes + _INDEX * (samples + ood_samples)
    return MemoryPrice(device, host)
